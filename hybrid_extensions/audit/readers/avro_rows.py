"""Rows of Avro files by their logical types, decoded differently from the runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from sources.common.optional import needs_extra

_BATCH_ROWS = 50_000


def avro_rows(path: str, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an Avro file in batches of up to 50,000, decoded by fastavro.

    Args:
        path: Local path of the file.
        columns: The columns to return, in these types; one that the file lacks is null.

    Raises:
        InputError: fastavro is not installed.
    """
    with needs_extra("avro", "Avro"):
        import fastavro  # noqa: PLC0415 - its library is optional

    with Path(path).open("rb") as file:
        rows = iter(fastavro.reader(file))
        while batch := list(islice(rows, _BATCH_ROWS)):
            arrays = [
                pa.array([_plain(row.get(each.name), each.type) for row in batch], each.type)
                for each in columns
            ]
            yield pa.table(arrays, schema=columns)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it: times of day as numbers, UUIDs as texts, maps as pairs."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        micros = seconds * 1_000_000 + value.microsecond
        return micros // 1000 if kind == pa.int32() else micros
    if isinstance(value, dict):
        if pa.types.is_map(kind):
            return [(key, _plain(item, kind.item_type)) for key, item in value.items()]
        return {each.name: _plain(value.get(each.name), each.type) for each in kind}
    if isinstance(value, list):
        return [_plain(item, kind.value_type) for item in value]
    # Nanoseconds have no type in Python.
    is_nanos = type(value) is int and pa.types.is_timestamp(kind)
    return value // 1000 if is_nanos else value
