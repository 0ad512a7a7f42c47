"""Lowest and highest times of a Delta table's files, by the statistics in its log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable


class FileTimes(NamedTuple):
    """Times of the rows of a file, in UTC; None where its statistics have none.

    Attributes:
        lowest: Not later than any of them.
        highest: Not more than a millisecond before the latest one, as Delta truncates it to that.
    """

    lowest: datetime | None
    highest: datetime | None


def file_times(table: DeltaTable, column: str) -> dict[str, FileTimes]:
    """Return the times of each file of a table's version, by the file's path; no file is opened.

    Empty for a table without files. A column that the table lacks has no times in any file.

    Args:
        table: The table.
        column: A column with timestamps; those without a zone are UTC.
    """
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    sides = (f"min.{column}", f"max.{column}")
    return {row["path"]: FileTimes(*(_instant(row.get(side)) for side in sides)) for row in rows}


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
