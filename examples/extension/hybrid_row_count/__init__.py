"""How many rows a table has to have: a field, a check, a part of the status, a command.

Besides, a format of a topic's values, `form`, and a kind of source, `sqlite`.
"""

from sources.extensions import Extension

EXTENSION = Extension(
    "row_count",
    section="hybrid_row_count.declare:RowCountSection",
    commands="hybrid_row_count.cli:app",
    definitions="hybrid_row_count.checks:definitions",
    status="hybrid_row_count.status:status_part",
    value_formats="hybrid_row_count.form_values:FORMATS",
    sources="hybrid_row_count.sqlite_source:SOURCES",
)
