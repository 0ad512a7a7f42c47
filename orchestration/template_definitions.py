"""Old name of :mod:`hybrid_extensions.cdc.tables.dagster`, which code of users imports."""

from hybrid_extensions.cdc.tables.dagster import template_definitions

__all__ = ["template_definitions"]
