"""The number of rows as a part of the status."""

from __future__ import annotations

from hybrid_row_count.declare import count, declared
from orchestration.supervision.status_part import Number, Row, StatusPart
from sources.config.loader import LoadedPipeline


def status_part(loaded: LoadedPipeline) -> StatusPart:
    """Return whether the table has the rows that it has to have; an empty part without a rule."""
    expected = declared(loaded)
    if expected is None:
        return StatusPart("row_count", None, is_healthy=True)
    rows = count(loaded)
    is_healthy = rows >= expected.at_least
    return StatusPart(
        "row_count",
        {"rows": rows, "at_least": expected.at_least},
        is_healthy,
        ("rows", "at least"),
        [Row((f"{rows:,}", f"{expected.at_least:,}"), is_healthy)],
        [Number("rows", "Rows of the table", {"pipeline": loaded.pipeline.name}, rows)],
    )
