"""Old name of :mod:`hybrid_extensions.cdc.tables.template`, which code of users imports."""

from hybrid_extensions.cdc.tables.template import Template

__all__ = ["Template"]
