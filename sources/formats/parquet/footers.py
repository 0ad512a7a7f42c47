"""Footers of many Parquet files, read at once: columns, numbers of rows, ranges of event times."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.counting import counted
from sources.common.schema import (
    check_event_time,
    leaves,
    normalize_schema,
    type_name,
    with_leaves,
)
from sources.common.sql.select import EventColumn
from sources.errors import InputError
from sources.formats.event_times import EventTimeRange, table_of_ranges
from sources.formats.open_file import in_file
from sources.formats.parquet.event_time_range import (
    REQUESTS,
    THREADS,
    factor_of,
    range_by_footer,
    read_range,
)
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import footer_of, parse_fast, parse_safely, unreadable
from sources.storage.stores import Stores

_CHUNK_FILES = 500
CHUNK_OBJECTS = 25
"""Objects of a thread at a time: while it waits for an answer, others have the core."""
PROCESS_FILES = 20_000
"""Files from which on processes read footers: they are parsed under the GIL."""
PROCESS_OBJECTS = 5_000
"""Objects of a store from which on they do."""
OBJECTS_AT_ONCE = 1_000
"""Objects that such a process is given at a time."""
_CODECS_BY_ARROW_ALONE = ("BROTLI",)
_ENCODINGS_BY_ARROW_ALONE = {"BYTE_STREAM_SPLIT"}
_FLOATS = ("FLOAT", "DOUBLE")
# What Arrow reads as bytes or, of parquet-java's intervals, as null: a text to Spark, or no type.
_READ_OTHERWISE = {
    ("ENUM", "BYTE_ARRAY"): pa.string(),
    ("UNKNOWN", "FIXED_LEN_BYTE_ARRAY"): pa.month_day_nano_interval(),
}
# What `created_by` begins with: Arrow and pandas, and Polars.
_WRITERS_OF_NO_TYPE = ("parquet-cpp", "Polars")


class Footers(NamedTuple):
    """Event-time ranges and schemas of some Parquet files, from their footers.

    Attributes:
        ranges: One row per file, in their order; columns are the fields of :class:`EventTimeRange`.
        schemas: Distinct schemas, each with the path of the first file that has it; one may be in
            it twice.
        schema_of: Index in ``schemas`` of each file's schema, in the order of the files.
        parsed: Path of the first file that Spark's own reader does not read correctly, because of a
            column of nanoseconds, one that is null throughout, its codec or an encoding; in a
            folder that keeps growing, also of one whose writer gives a column without any value no
            type, as the next file may have such a column. None without any.
    """

    ranges: pa.Table
    schemas: list[tuple[str, pa.Schema]]
    schema_of: list[int]
    parsed: str | None = None


def read_footers(
    paths: Sequence[str],
    event: EventColumn,
    declared: Sequence[str] | None,
    stores: Stores,
    *,
    is_growing: bool = False,
) -> Iterator[Footers]:
    """Read event-time ranges and schemas of Parquet files, to plan them without reading their rows.

    Only the footers are read. Where the statistics in a footer can't be used (missing, or of
    nanoseconds or INT96), the file's event-time column is read instead. Footers are read by a pool
    of threads, in S3 with one request each; those of 20,000 and more local files, or of 5,000 and
    more objects, by a pool of processes, with a faster parser that a damaged footer may crash: then
    the remaining files are read with the safe one.

    Args:
        paths: The files.
        event: Column of the event time, and the unit of its numbers if it is an integer.
        declared: Columns that the source declares, to which the schemas are cut down; None for all
            of a file's columns.
        stores: Storages that the files may be in.
        is_growing: Whether further files arrive in their folder.

    Yields:
        One :class:`Footers` for each 500 files, in the order of ``paths``, or for fewer objects of
        a store; nothing without files.

    Raises:
        InputError: A file can't be read, has a column of a type that Spark does not have, or has
            no usable event-time column; contains the file. Or the safe parser crashes, too:
            contains the first and the last file of the 500 that were read together, since the one
            that crashed it is unknown.
    """
    read = partial(
        _read_chunk, event=event, declared=declared, stores=stores, is_growing=is_growing
    )
    is_remote = any("://" in path for path in paths)
    if len(paths) >= (PROCESS_OBJECTS if is_remote else PROCESS_FILES):
        size = OBJECTS_AT_ONCE if is_remote else _CHUNK_FILES
        whole = partial(_read_objects, read=read) if is_remote else read
        yield from _read_in_processes(whole, _chunks(paths, size))
    else:
        size, threads = (CHUNK_OBJECTS, REQUESTS) if is_remote else (_CHUNK_FILES, THREADS)
        yield from _read_in_threads(partial(read, parse=parse_safely), paths, size, threads)


def _chunks(paths: Sequence[str], size: int) -> list[Sequence[str]]:
    return [paths[first : first + size] for first in range(0, len(paths), size)]


def _read_in_threads(
    read: Callable[[Sequence[str]], Footers],
    paths: Sequence[str],
    size: int,
    threads: int,
) -> Iterator[Footers]:
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(read, _chunks(paths, size))


def _read_objects(
    paths: Sequence[str],
    parse: Callable[[pa.Buffer], pq.FileMetaData],
    read: Callable[..., Footers],
) -> Footers:
    """Read the footers of some objects of a store, many at once.

    Args:
        paths: The objects.
        parse: Parses one footer.
        read: Reads a part of them, one after the other.

    Raises:
        InputError: As ``read``.
    """
    found = list(_read_in_threads(partial(read, parse=parse), paths, CHUNK_OBJECTS, REQUESTS))
    schemas: list[tuple[str, pa.Schema]] = []
    schema_of: list[int] = []
    for footers in found:
        schema_of += [len(schemas) + index for index in footers.schema_of]
        schemas += footers.schemas
    parsed = next((footers.parsed for footers in found if footers.parsed is not None), None)
    ranges = pa.concat_tables(footers.ranges for footers in found)
    return Footers(ranges, schemas, schema_of, parsed)


def _read_in_processes(
    read: Callable[..., Footers], chunks: Sequence[Sequence[str]]
) -> Iterator[Footers]:
    """Read Parquet footers in worker processes; if one crashes, use a slower, safer parser.

    Args:
        read: Reads a chunk with a parser.
        chunks: Paths of the files.

    Raises:
        InputError: The safer parser crashes, too: contains the chunk's first and last file.
    """
    # Not forked: librdkafka and Arrow have threads of their own by now.
    context = multiprocessing.get_context("spawn")
    done = 0
    for parse in (parse_fast, parse_safely):
        with ProcessPoolExecutor(mp_context=context) as pool:
            try:
                for footers in pool.map(partial(read, parse=parse), chunks[done:]):
                    done += 1
                    yield footers
                return
            except BrokenProcessPool:
                continue
    first, last = chunks[done][0], chunks[done][-1]
    message = (
        f"The process that reads the footers of {counted(len(chunks[done]), 'Parquet file')}, from "
        f"{first} to {last} in the order of the listing, was ended twice: by a damaged file, which "
        "one is unknown, or for lack of memory."
    )
    hint = (
        "If there is enough memory, open these files one by one with a Parquet tool to find the "
        "damaged one, and write it again. If nothing can write it again, move it out of the "
        "source's folder: its rows will be missing from the table. Then plan again (`hybrid plan "
        "P`)."
    )
    raise InputError(message, hint, file=first)


def _read_chunk(
    paths: Sequence[str],
    event: EventColumn,
    declared: Sequence[str] | None,
    stores: Stores,
    is_growing: bool,
    parse: Callable[[pa.Buffer], pq.FileMetaData],
) -> Footers:
    """Read the footers of some Parquet files, one after the other.

    Args:
        paths: The files.
        event: Column of the event time.
        declared: Columns to look at; None for all of them.
        stores: Storages that the files may be in.
        is_growing: Whether further files arrive in their folder.
        parse: Parses one footer, without length and magic number at its end.

    Raises:
        InputError: A file can't be read, or has no usable event-time column; contains the file.
    """
    ranges: list[EventTimeRange] = []
    schemas: list[tuple[str, pa.Schema]] = []
    schema_of: list[int] = []
    last: pq.ParquetSchema | None = None
    parsed: str | None = None
    writer: str | None = None
    column, factor, index = 0, None, 0
    floats: Sequence[int] = ()
    for path in paths:
        try:
            metadata = footer_of(path, stores, parse)
            schema = metadata.schema
            # A look at each column of each file would take as long as to parse the footer. Writers
            # such as DuckDB choose the encoding of numbers by their values.
            looked_at: Sequence[int] = (column, *floats)
            if metadata.created_by != writer:
                looked_at, writer = range(len(schema)), metadata.created_by
            if last is None or not schema.equals(last):
                inside = _inside(metadata, declared)
                if parsed is None and any(map(needs_parsing, inside.types)):
                    parsed = path
                columns = normalize_schema(inside, may_be_open=True)
                found = event.within(inside) or event
                check_event_column(columns, found, path)
                known_schemas = [known for _, known in schemas]
                if columns not in known_schemas:
                    schemas.append((path, columns))
                    known_schemas.append(columns)
                index = known_schemas.index(columns)
                last = schema
                leaves = [schema.column(leaf).path for leaf in range(len(schema))]
                column = leaves.index(found.name)
                factor = factor_of(schema.column(column), event)
                looked_at = range(len(schema))
                floats = [at for at in looked_at if schema.column(at).physical_type in _FLOATS]
            if parsed is None and (
                _is_stored_otherwise(metadata, looked_at)
                or _is_no_path_of_hadoop(path)
                or (is_growing and str(metadata.created_by).startswith(_WRITERS_OF_NO_TYPE))
            ):
                parsed = path
            known = range_by_footer(metadata, column, factor)
            ranges.append(read_range(path, stores, event) if known is None else known)
            schema_of.append(index)
        except (OSError, OverflowError, pa.ArrowException) as error:
            raise unreadable(path, error) from None
        except InputError as error:
            raise in_file(error, path) from None
    # Sending a table to another process is cheap, sending a list of tuples is not.
    return Footers(table_of_ranges(ranges), schemas, schema_of, parsed)


def _inside(metadata: pq.FileMetaData, declared: Sequence[str] | None) -> pa.Schema:
    """Return the declared columns of a Parquet file, or all of them, as Arrow reads them.

    Names in another case are among them: Spark does not tell them from the declared ones. An
    enumeration is a text, as in Spark; an interval has its own type, which is refused.
    """
    footer = pa.BufferOutputStream()
    metadata.write_metadata_file(footer)
    schema = parquet_file(pa.BufferReader(footer.getvalue())).schema_arrow
    stored = map(metadata.schema.column, range(len(metadata.schema)))
    kinds = [(column.logical_type.type, column.physical_type) for column in stored]
    if not _READ_OTHERWISE.keys().isdisjoint(kinds):
        leaf_kinds = iter(kinds)
        read = partial(with_leaves, change=lambda leaf: _READ_OTHERWISE.get(next(leaf_kinds), leaf))
        schema = pa.schema([field.with_type(read(field.type)) for field in schema])
    if declared is None:
        return schema
    names = {name.lower() for name in declared}
    return pa.schema([field for field in schema if field.name.lower() in names])


def needs_parsing(kind: pa.DataType) -> bool:
    """Return whether Spark's reader would misread a Parquet column of a type.

    True for nanoseconds, and for a column that is null throughout, also within nested types.

    Args:
        kind: Type in which Arrow reads the column.
    """
    return any(
        pa.types.is_null(leaf) or (pa.types.is_timestamp(leaf) and leaf.unit == "ns")
        for leaf in leaves(kind)
    )


def _is_stored_otherwise(metadata: pq.FileMetaData, columns: Sequence[int]) -> bool:
    """Return whether columns of a file have a codec or an encoding that Spark does not have."""
    return any(
        chunk.compression in _CODECS_BY_ARROW_ALONE
        or not _ENCODINGS_BY_ARROW_ALONE.isdisjoint(chunk.encodings)
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for chunk in map(group.column, columns)
    )


def _is_no_path_of_hadoop(path: str) -> bool:
    """Return whether Hadoop, with which Spark reads, refuses the name of a file of this machine.

    It takes what is before a colon for the scheme of an address.
    """
    return "://" not in path and ":" in path.rpartition("/")[2]


def check_event_column(columns: pa.Schema, event: EventColumn, where: str) -> None:
    """Refuse a schema whose event-time column is missing or of an unusable type.

    Args:
        columns: Columns of a file or source.
        event: Name of the event-time column, and the microseconds in its unit if `select` converts
            it from an integer.
        where: The file or source, for messages.

    Raises:
        InputError: The column is missing; or, without a unit, is not a timestamp, and with one, is
            not an integer.
    """
    if event.unit_us is None or event.name not in columns.names:
        check_event_time(columns, event.name, where)
        return
    kind = columns.field(event.name).type
    if not pa.types.is_integer(kind):
        message = (
            f"The event-time column `{event.name}` is of type {type_name(kind)} in {where}, but "
            "`select` converts it with timestamp_seconds, timestamp_millis or timestamp_micros, "
            "which needs an integer column."
        )
        hint = (
            "If the column is a timestamp already, remove the function from `select`; if not, name "
            "an integer column there."
        )
        raise InputError(message, hint, column=event.name, value=type_name(kind))
