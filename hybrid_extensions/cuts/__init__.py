"""Consistent cuts: table versions that together equal the database as of one commit.

Belongs here: who publishes a cut and when, the barrier at which each table's driver commits, and
the table of the cuts with its readers. Does not belong here: how changes are merged.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "cuts",
    section="hybrid_extensions.cuts.declare:CutsSection",
    commands="hybrid_extensions.cuts.cli:app",
    whole_file_commands=("cut", "publish-cuts"),
    tables_definitions="hybrid_extensions.cuts.dagster:definitions",
    merging="hybrid_extensions.cuts.spark:merging",
)
