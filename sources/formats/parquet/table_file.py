"""Suitability of a Parquet file for a Delta table without rewriting, and its statistics there.

A table's reader takes columns by name in the table's types, so a file has to have exactly these.
The types are those of https://github.com/delta-io/delta/blob/master/PROTOCOL.md#primitive-types,
and how Parquet writes them is in https://github.com/apache/parquet-format/blob/master/LogicalTypes.md.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.schema import type_name

# By Spark SQL type: the physical type, and what the logical type begins with, or is if it is none.
_NONE = "None"
_WRITTEN_AS = {
    "boolean": ("BOOLEAN", (_NONE,)),
    "tinyint": ("INT32", ("Int(bitWidth=8, isSigned=true)",)),
    "smallint": ("INT32", ("Int(bitWidth=16, isSigned=true)",)),
    "int": ("INT32", (_NONE, "Int(bitWidth=32, isSigned=true)")),
    "bigint": ("INT64", (_NONE, "Int(bitWidth=64, isSigned=true)")),
    "float": ("FLOAT", (_NONE,)),
    "double": ("DOUBLE", (_NONE,)),
    "string": ("BYTE_ARRAY", ("String",)),
    "binary": ("BYTE_ARRAY", (_NONE,)),
    "date": ("INT32", ("Date",)),
    "timestamp": ("INT64", ("Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",)),
}
_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
_ENCODINGS = {
    *("PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"),
    *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
}
# Spark marks files whose dates before 1582 are of the Julian calendar; so are all of Spark 2.
_JULIAN = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_SPARK = b"org.apache.spark.version"


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


def why_rewritten(file: pq.FileMetaData, columns: pa.Schema) -> str | None:
    """Return why a file can't be part of a Delta table without rewriting; None if it can.

    A clause without a full stop.

    Args:
        file: The file's footer.
        columns: Columns that the table's files hold: without partition columns.
    """
    found = {file.schema.column(at).path: at for at in range(len(file.schema))}
    for field in columns:
        if pa.types.is_nested(field.type):
            return f"column `{field.name}` is nested"
        if field.name not in found:
            return f"column `{field.name}` is not in it"
        if not _is_written_as(file.schema.column(found[field.name]), field.type):
            return f"column `{field.name}` is stored otherwise than Delta's {type_name(field.type)}"
    if further := sorted(found.keys() - set(columns.names)):
        # They would stay in the table's files, out of sight.
        return f"column `{further[0]}` is not in the table"
    marks = file.metadata or {}
    if any(mark in marks for mark in _JULIAN) or marks.get(_SPARK, b"3") < b"3":
        return "its dates may be of the Julian calendar"
    for chunk in _chunks(file):
        if chunk.compression not in _CODECS:
            return f"it is compressed by {chunk.compression}"
        if other := sorted({*chunk.encodings} - _ENCODINGS):
            return f"it is encoded by {other[0]}"
    return None


def _is_written_as(column: pq.ColumnSchema, kind: pa.DataType) -> bool:
    logical = str(column.logical_type)
    if pa.types.is_decimal(kind):
        return logical == f"Decimal(precision={kind.precision}, scale={kind.scale})"
    physical, beginnings = _WRITTEN_AS[type_name(kind)]
    return column.physical_type == physical and any(map(logical.startswith, beginnings))


def _chunks(file: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(file.num_row_groups):
        for at in range(file.num_columns):
            yield file.row_group(group).column(at)


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
    may be cut short, and of fractions it may leave out NaN.

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
