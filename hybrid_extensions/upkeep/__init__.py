"""Upkeep of the table that readers see: compaction of small files, and VACUUM.

Belongs here: what changes the table's files and no row, by hand or by schedule. Does not belong
here: files that a promotion or a range replaces (`hybrid_extensions.generations`).
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "upkeep",
    section="hybrid_extensions.upkeep.declare:UpkeepSection",
    commands="hybrid_extensions.upkeep.cli:app",
    definitions="hybrid_extensions.upkeep.dagster:definitions",
    actions="hybrid_extensions.upkeep.dagster:actions",
)
