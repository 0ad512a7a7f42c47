"""Rows of Avro files for the audit by fastavro: any year, nanoseconds cut off, maps, UUIDs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any
from uuid import UUID

import pyarrow as pa

from sources.common.optional import needs_extra

_BATCH_ROWS = 50_000
# By logical type, days or microseconds in its unit.
_UNITS = {
    "int-date": 1,
    "long-timestamp-millis": 1000,
    "long-timestamp-micros": 1,
    "long-local-timestamp-millis": 1000,
    "long-local-timestamp-micros": 1,
}


class _Far(int):
    """A day or microsecond since 1970 in a year that Python's dates do not have."""


def avro_rows(file: pa.NativeFile, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of an Avro file in batches of up to 50,000, decoded by fastavro.

    Its fields are found by exact name. fastavro is patched in this process, for years beyond
    Python's dates. A damaged file raises whatever fastavro does.

    Args:
        file: The file, decompressed.
        columns: The columns to return, in these types; one that the file lacks is null.

    Raises:
        InputError: fastavro is not installed.
    """
    with needs_extra("avro", "Avro"):
        import fastavro  # noqa: PLC0415 - its library is optional

    _read_far_times()
    rows = iter(fastavro.reader(file))
    while batch := list(islice(rows, _BATCH_ROWS)):
        arrays = [
            pa.array([_plain(row.get(each.name), each.type) for row in batch], each.type)
            for each in columns
        ]
        yield pa.table(arrays, schema=columns)


@cache
def _read_far_times() -> None:
    """Patch fastavro in this process so that it returns a date or time of any year.

    Unpatched it raises an error. Repeated calls do nothing.
    """
    import fastavro  # noqa: PLC0415 - its library is optional

    def reader(known: Callable[..., Any], unit: int) -> Callable[..., Any]:
        def read(number: int, *schemas: Any) -> Any:
            try:
                return known(number, *schemas)
            except (ValueError, OverflowError):
                return _Far(number * unit)

        return read

    readers = fastavro.read.LOGICAL_READERS
    for name, unit in _UNITS.items():
        readers[name] = reader(readers[name], unit)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it: times of day as numbers, UUIDs as texts, maps as pairs."""
    if isinstance(value, _Far):
        return int(value)
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
