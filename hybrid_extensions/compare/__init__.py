"""Comparison of a captured table with its database, row by row: by hand, or in ranges by schedule.

Belongs here: reading both sides, rechecks of rows that differ, and the verdict's check. Does not
belong here: the verdict as it is kept (`hybrid_extensions.cdc.compared.kept_compare`), how a kind
of database is read, and the repair of rows that differ.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "compare",
    section="hybrid_extensions.compare.declare:CompareSection",
    commands="hybrid_extensions.compare.cli:app",
    definitions="hybrid_extensions.compare.dagster:definitions",
    actions="hybrid_extensions.compare.dagster:actions",
)
