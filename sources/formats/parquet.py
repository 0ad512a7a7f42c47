"""What the footers of Parquet files tell: columns, rows, and the range of event times."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# What unpickling metadata calls: to open a file as Parquet costs more than all the rest.
from pyarrow._parquet import _reconstruct_filemetadata

from sources.common.schema import TIMESTAMP, check_event_time, normalize_schema, type_name
from sources.common.select import EventColumn
from sources.errors import InputError
from sources.storage.stores import Stores

_CHUNK_FILES = 500
_TAIL_BYTES = 64 << 10
# Footers are parsed under Python's lock: beyond this, processes pay for their start.
_PROCESS_FILES = 20_000
_THREADS = 16
_FACTORS = {"milliseconds": 1000, "microseconds": 1}


class Range(NamedTuple):
    """What is known of the rows of one split.

    Attributes:
        rows: How many there are; None if nothing tells.
        low: Lowest event time in microseconds; None without a row that has one.
        high: Highest one.
        nulls: Rows without an event time; None if nothing tells.
    """

    rows: int | None
    low: int | None
    high: int | None
    nulls: int | None


class Footers(NamedTuple):
    """What the footers of many files tell.

    Attributes:
        ranges: One a file, in their order; columns as the fields of :class:`Range`.
        schemas: Each schema that was met, with the first file that has it.
    """

    ranges: pa.Table
    schemas: list[tuple[str, pa.Schema]]


def table_of_ranges(ranges: Sequence[Range]) -> pa.Table:
    """Ranges as a table, a column a field."""
    columns = zip(*ranges, strict=True)
    return pa.table([pa.array(values, pa.int64()) for values in columns], names=Range._fields)


def read_footers(
    paths: Sequence[str], event: EventColumn, declared: Sequence[str] | None, stores: Stores
) -> Iterator[Footers]:
    """Read the footers of files, chunk by chunk, in order.

    Args:
        paths: The files.
        event: The column that holds the event time.
        declared: The columns that count; all of them if None.
        stores: Where the files are.

    Raises:
        InputError: One can't be read (which), or has no event time.
    """
    chunks = [paths[at : at + _CHUNK_FILES] for at in range(0, len(paths), _CHUNK_FILES)]
    read = partial(_read_chunk, event=event, declared=declared, stores=stores)
    if len(paths) < _PROCESS_FILES or any("://" in path for path in paths):
        with ThreadPoolExecutor(_THREADS) as pool:
            yield from pool.map(partial(read, parse=_open_metadata), chunks)
    else:
        yield from _read_in_processes(read, chunks)


def _read_in_processes(
    read: Callable[..., Footers], chunks: Sequence[Sequence[str]]
) -> Iterator[Footers]:
    """The footers of chunks of files, quickly; of one that ends its reader, once more with care."""
    # Not forked: librdkafka and Arrow have threads of their own by now.
    context = multiprocessing.get_context("spawn")
    done = 0
    for parse in (_parse_metadata, _open_metadata):
        with ProcessPoolExecutor(mp_context=context) as pool:
            try:
                for found in pool.map(partial(read, parse=parse), chunks[done:]):
                    done += 1
                    yield found
                return
            except BrokenProcessPool:
                continue
    first, last = chunks[done][0], chunks[done][-1]
    message = f"A file from {first} to {last} is damaged so badly that its reader breaks down."
    raise InputError(message, "Repair or remove it, then plan again.")


def _read_chunk(
    paths: Sequence[str],
    event: EventColumn,
    declared: Sequence[str] | None,
    stores: Stores,
    parse: Callable[[str, Stores], pq.FileMetaData],
) -> Footers:
    ranges: list[Range] = []
    schemas: list[tuple[str, pa.Schema]] = []
    last: pq.ParquetSchema | None = None
    column, factor = 0, None
    for path in paths:
        try:
            metadata = parse(path, stores)
            schema = metadata.schema
            if last is None or not schema.equals(last):
                found = _columns(schema.to_arrow_schema(), path, event, declared)
                if all(found != known for _, known in schemas):
                    schemas.append((path, found))
                last = schema
                leaves = [schema.column(at).path for at in range(len(schema))]
                column = leaves.index(event.name)
                factor = _factor(schema.column(column), event)
            known = _range(metadata, column, factor)
            ranges.append(_read_range(path, stores, event) if known is None else known)
        except (OSError, OverflowError, pa.ArrowException) as error:
            message = f"{path} can't be read as Parquet: {error}"
            raise InputError(message, "Repair or remove it, then plan again.") from None
    # A table travels between processes for nothing, a list of tuples does not.
    return Footers(table_of_ranges(ranges), schemas)


def _open_metadata(path: str, stores: Stores) -> pq.FileMetaData:
    """The footer of a file."""
    with stores.of(path).open(path) as stream, pq.ParquetFile(stream) as file:
        return file.metadata


def _parse_metadata(path: str, stores: Stores) -> pq.FileMetaData:
    """The same of a local one, at a third of the cost; a damaged footer may end the process.

    The end of a file tells the footer's length (https://parquet.apache.org/docs/file-format/).
    """
    # What opens files for Arrow asks more of the system than all that is needed here.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        begin = max(os.fstat(file).st_size - _TAIL_BYTES, 0)
        tail = os.pread(file, _TAIL_BYTES, begin)
    finally:
        os.close(file)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] == b"PAR1" and length <= len(tail) - 8:
        return _reconstruct_filemetadata(pa.py_buffer(tail[-8 - length : -8]))
    return _open_metadata(path, stores)


def _columns(
    schema: pa.Schema, path: str, event: EventColumn, declared: Sequence[str] | None
) -> pa.Schema:
    if declared is not None:
        schema = pa.schema([field for field in schema if field.name in declared])
    schema = normalize_schema(schema)
    check_event_column(schema, event, path)
    return schema


def _range(metadata: pq.FileMetaData, column: int, factor: int | None) -> Range | None:
    """From statistics, whose unit is so many microseconds; None if they do not tell."""
    lows: list[int] = []
    highs: list[int] = []
    nulls = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        statistics = chunk.statistics
        # Nanoseconds and Spark's own INT96 come without usable statistics.
        if statistics is None or factor is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        if not statistics.has_min_max:
            return None
        lows.append(statistics.min_raw * factor)
        highs.append(statistics.max_raw * factor)
    return Range(metadata.num_rows, min(lows, default=None), max(highs, default=None), nulls)


def _read_range(path: str, stores: Stores, event: EventColumn) -> Range:
    """From the column itself."""
    with stores.of(path).open(path) as stream, pq.ParquetFile(stream) as file:
        return column_range(file.read(columns=[event.name]).column(0), event.unit_us)


def _factor(column: pq.ColumnSchema, event: EventColumn) -> int | None:
    """Microseconds in a unit of a column; None if its statistics are of no use."""
    if event.unit_us is not None:
        return event.unit_us
    kind = column.logical_type
    if kind.type != "TIMESTAMP" or column.physical_type != "INT64":
        return None
    return next((by for unit, by in _FACTORS.items() if f"timeUnit={unit}" in str(kind)), None)


def column_range(values: pa.ChunkedArray, unit_us: int | None = None) -> Range:
    """The range of a column that was read.

    Args:
        values: Timestamps, or integers.
        unit_us: Microseconds in a unit of integers.
    """
    if unit_us is None:
        micros = values.cast(TIMESTAMP, safe=False).cast(pa.int64())
    else:
        micros = pc.multiply_checked(values.cast(pa.int64()), unit_us)
    extremes = pc.min_max(micros)
    return Range(len(values), extremes["min"].as_py(), extremes["max"].as_py(), values.null_count)


def check_event_column(columns: pa.Schema, event: EventColumn, where: str) -> None:
    """Refuse a column that can't hold the event time.

    Raises:
        InputError: It is missing, or is of another type.
    """
    if event.unit_us is None:
        check_event_time(columns, event.name, where)
        return
    kind = columns.field(event.name).type
    if not pa.types.is_integer(kind):
        message = f"`{event.name}` is of type {type_name(kind)} in {where}."
        raise InputError(message, "The functions that make an instant of it need an integer.")
