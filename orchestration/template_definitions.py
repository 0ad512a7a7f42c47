"""Old name of :mod:`hybrid_extensions.cdc.tables.definitions`, which code of users imports."""

from hybrid_extensions.cdc.tables.definitions import template_definitions

__all__ = ["template_definitions"]
