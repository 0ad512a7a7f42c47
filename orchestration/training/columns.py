"""Old name of :mod:`hybrid_extensions.training.columns`."""

from hybrid_extensions.training.columns import Asked

__all__ = ["Asked"]
