"""Known at: the column of a table with the time from which on a row counts as known."""

from __future__ import annotations

from collections.abc import Container

from sources.config.pipeline import Pipeline
from sources.config.table.sink import VALID_FROM

KNOWN_AT = "known_at"
"""Column by which a transform says when a row became known."""


def known_at_of(pipeline: Pipeline, columns: Container[str]) -> str:
    """Return the column of a pipeline's table from whose time on a row counts as known.

    ``valid_from`` of a table that keeps every version, else ``known_at`` if the table has it, else
    the event time.

    Args:
        pipeline: The pipeline.
        columns: Names of the table's columns.
    """
    if pipeline.sink.history is not None:
        return VALID_FROM
    return KNOWN_AT if KNOWN_AT in columns else pipeline.event_time.column
