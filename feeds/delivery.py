"""Old name of :mod:`hybrid_extensions.feeds.delivery`."""

from hybrid_extensions.feeds.delivery import Delivery

__all__ = ["Delivery"]
