"""What the footers of Parquet files tell: columns, rows, and the range of event times."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.errors import InputError
from sources.schema import TIMESTAMP, check_event_time, normalize_schema, type_name
from sources.select import EventColumn
from sources.stores import Stores

_CHUNK_FILES = 500
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
        ranges: One a file, in their order.
        schemas: Each schema that was met, with the first file that has it.
    """

    ranges: list[Range]
    schemas: list[tuple[str, pa.Schema]]


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
    with _executor(paths) as pool:
        yield from pool.map(read, chunks)


def _executor(paths: Sequence[str]) -> Executor:
    if len(paths) < _PROCESS_FILES or "://" in paths[0]:
        return ThreadPoolExecutor(_THREADS)
    # Not forked: librdkafka and Arrow have threads of their own by now.
    return ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))


def _read_chunk(
    paths: Sequence[str], event: EventColumn, declared: Sequence[str] | None, stores: Stores
) -> Footers:
    ranges: list[Range] = []
    schemas: list[tuple[str, pa.Schema]] = []
    last: pq.ParquetSchema | None = None
    column, factor = 0, None
    for path in paths:
        try:
            with stores.of(path).open(path) as stream, pq.ParquetFile(stream) as file:
                schema = file.metadata.schema
                if last is None or not schema.equals(last):
                    found = _columns(file.schema_arrow, path, event, declared)
                    if all(found != known for _, known in schemas):
                        schemas.append((path, found))
                    last = schema
                    leaves = [schema.column(at).path for at in range(len(schema))]
                    column = leaves.index(event.name)
                    factor = _factor(schema.column(column), event)
                ranges.append(_range(file, column, event, factor))
        except (OSError, OverflowError, pa.ArrowException) as error:
            message = f"{path} can't be read as Parquet: {error}"
            raise InputError(message, "Repair or remove it, then plan again.") from None
    return Footers(ranges, schemas)


def _columns(
    schema: pa.Schema, path: str, event: EventColumn, declared: Sequence[str] | None
) -> pa.Schema:
    if declared is not None:
        schema = pa.schema([field for field in schema if field.name in declared])
    schema = normalize_schema(schema)
    check_event_column(schema, event, path)
    return schema


def _range(file: pq.ParquetFile, column: int, event: EventColumn, factor: int | None) -> Range:
    """From statistics, whose unit is so many microseconds, or from the column itself."""
    metadata = file.metadata
    lows: list[int] = []
    highs: list[int] = []
    nulls = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        statistics = chunk.statistics
        # Nanoseconds and Spark's own INT96 come without usable statistics.
        if statistics is None or factor is None or not statistics.has_null_count:
            return column_range(file.read(columns=[event.name]).column(0), event.unit_us)
        nulls += statistics.null_count
        if statistics.null_count == chunk.num_values:
            continue
        if not statistics.has_min_max:
            return column_range(file.read(columns=[event.name]).column(0), event.unit_us)
        lows.append(statistics.min_raw * factor)
        highs.append(statistics.max_raw * factor)
    return Range(metadata.num_rows, min(lows, default=None), max(highs, default=None), nulls)


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
