"""Statistics of a Parquet file, from its footer, as a Delta table's log has them."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


class ColumnRange(NamedTuple):
    """Range and null count of a column, from a file's footer.

    Attributes:
        nulls: Number of nulls; None if the footer does not say it.
        low, high: Lowest and highest value, as Parquet stores them; None if it does not say them,
            or there is no value.
    """

    nulls: int | None
    low: Any = None
    high: Any = None


def column_range(file: pq.FileMetaData, name: str) -> ColumnRange | None:
    """Return the footer's statistics of a column; None if the file lacks the column.

    Args:
        file: The file's footer.
        name: The column, which is not nested.
    """
    names = [file.schema.column(at).path for at in range(len(file.schema))]
    if name not in names:
        return None
    at, nulls = names.index(name), 0
    lows, highs = [], []
    for group in range(file.num_row_groups):
        chunk = file.row_group(group).column(at)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return ColumnRange(None)
        nulls += statistics.null_count
        if statistics.has_min_max:
            lows.append(statistics.min_raw)
            highs.append(statistics.max_raw)
        elif statistics.null_count < chunk.num_values:
            return ColumnRange(None)
    return ColumnRange(nulls, min(lows, default=None), max(highs, default=None))


def statistics(file: pq.FileMetaData, columns: pa.Schema, names: Collection[str]) -> str:
    """Return a file's statistics as the JSON text that the ``add`` action of a Delta log has.

    Lowest and highest values only of integers, dates and timestamps: what a footer says of texts
    may be cut short, and of fractions it may leave out NaN. A column that the file lacks, or has no
    number of nulls of, is left out.

    Args:
        file: The file's footer.
        columns: Columns of the table.
        names: Names of the columns that get statistics.
    """
    low, high, nulls = {}, {}, {}
    for field in columns:
        found = column_range(file, field.name) if field.name in names else None
        if found is None or found.nulls is None:
            continue
        nulls[field.name] = found.nulls
        if found.low is None or not (
            pa.types.is_integer(field.type) or pa.types.is_temporal(field.type)
        ):
            continue
        # Python has no year before 1, nor after 9999.
        with suppress(OverflowError):
            ends = [_plain(each, field.type) for each in (found.low, found.high)]
            low[field.name], high[field.name] = ends
    made = {"numRecords": file.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(made)


def _plain(value: int, kind: pa.DataType) -> int | str:
    """Return a number of a footer in the form that Delta's log has."""
    if pa.types.is_date(kind):
        return (_EPOCH.date() + timedelta(days=value)).isoformat()
    return moment_in_log(value) if pa.types.is_timestamp(kind) else value


def moment_in_log(micros: int) -> str:
    """Return a time as the statistics of Delta's log write it, cut off to milliseconds.

    Delta allows for the truncated rest when it skips files.

    Args:
        micros: Unix microseconds.

    Raises:
        OverflowError: The year is before 1, or after 9999.
    """
    moment = _EPOCH + timedelta(milliseconds=micros // 1000)
    return f"{moment.isoformat(timespec='milliseconds')}Z"
