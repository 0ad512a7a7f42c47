"""Replacement of a whole table: generations next to the serving one, compared and promoted.

Belongs here: what lets readers see another generation, takes that back, or compares two of them, by
hand and by schedule; and the lock, the turns and the reading of Delta's log that all changes of a
table share, which extensions that change a part of it import. Does not belong here: what a
generation is, and which one serves, which are rules of `sources.generations` and `sources.serving`.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "generations",
    section="hybrid_extensions.generations.declare:GenerationsSection",
    commands="hybrid_extensions.generations.cli:app",
    definitions="hybrid_extensions.generations.dagster:definitions",
    replacement="hybrid_extensions.generations.dagster:REPLACEMENT",
)
