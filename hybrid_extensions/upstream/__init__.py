"""Upstream tables: `type: table`, the table of another pipeline as a source.

Belongs here: where a pipeline's table lies, which of them can be followed, and how far a follower
is. Does not belong here: how a table's versions are read, which is `sources.files.tables`.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "upstream",
    sources="hybrid_extensions.upstream.source:SOURCES",
    status="hybrid_extensions.upstream.status:status_part",
)
