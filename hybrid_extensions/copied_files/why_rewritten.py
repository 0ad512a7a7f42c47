"""Why a Parquet file can't be in a Delta table as it is: types, nested, codec, encoding, Julian.

A table's reader takes columns by name in the table's types, so a file has to have exactly these.
The types are those of https://github.com/delta-io/delta/blob/master/PROTOCOL.md#primitive-types,
and how Parquet writes them is in https://github.com/apache/parquet-format/blob/master/LogicalTypes.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.schema import type_name
from sources.formats.julian_calendar import may_be_julian

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


def why_rewritten(file: pq.FileMetaData, columns: pa.Schema) -> str | None:
    """Return why a file can't be part of a Delta table without rewriting; None if it can.

    A clause without a full stop. Names are case-sensitive; the file's other columns are a reason,
    too.

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
    if may_be_julian(file.metadata or {}):
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
