"""Kafka offsets that files of history hold: by names of Kafka Connect, or by columns.

Belongs here: which offsets a file holds by its name or its columns, when they count as exact, and
when the records of a topic show that they are of another log.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "held_offsets", held_offsets="hybrid_extensions.held_offsets.offsets_in_files:OFFSETS"
)
