"""A range of event times, as it selects rows and files of a Delta table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sources.files.tables.replaced_range import ReplacedRange

_TRUNCATED = timedelta(milliseconds=1)
"""What statistics of timestamps leave out: they are truncated to milliseconds."""


class Range(NamedTuple):
    """Range of event times: ``since`` inclusive, ``until`` exclusive.

    Attributes:
        column: Name of the event-time column.
        since: First event time in the range.
        until: First event time after the range.
        field: Name of the field with the event time, if the column is a struct.
    """

    column: str
    since: datetime
    until: datetime
    field: str | None = None

    @property
    def replaced(self) -> ReplacedRange:
        """The range as the commit that replaces its rows records it, for tables that follow."""
        return ReplacedRange(
            column=self.column, field=self.field, since=self.since, until=self.until
        )

    def holds(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return a mask of the rows whose event time is in the range.

        False for a row without an event time.

        Args:
            rows: Rows with the range's column.
        """
        at = rows[self.column]
        if self.field is not None:
            at = pc.struct_field(at, self.field)
        since, until = (pa.scalar(moment, at.type) for moment in (self.since, self.until))
        inside = pc.and_kleene(pc.greater_equal(at, since), pc.less(at, until))
        return pc.fill_null(inside, fill_value=False)

    def may_be_in(self, row: dict[str, Any]) -> bool:
        """Return whether a file may have rows of the range, by its statistics.

        True if they have no lowest or highest event time.

        Args:
            row: The file's row in ``DeltaTable.get_add_actions``.
        """
        low, high = (self._of(row, side) for side in ("min", "max"))
        if low is None or high is None:
            return True
        return bool(low < self.until and self.since - high < _TRUNCATED)

    def holds_all(self, row: dict[str, Any]) -> bool:
        """Return whether all rows of a file are in the range for certain, by its statistics.

        Args:
            row: The file's row in ``DeltaTable.get_add_actions``.
        """
        low, high, nulls = (self._of(row, side) for side in ("min", "max", "null_count"))
        if low is None or high is None or nulls != 0:
            return False
        return bool(low >= self.since and self.until - high >= _TRUNCATED)

    def _of(self, row: dict[str, Any], side: str) -> Any:
        found = (row.get(side) or {}).get(self.column)
        return found if self.field is None else (found or {}).get(self.field)
