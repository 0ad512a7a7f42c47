"""Old name of :mod:`hybrid_extensions.servers.broker`."""

from hybrid_extensions.servers.broker import LocalBroker, create_topic

__all__ = ["LocalBroker", "create_topic"]
