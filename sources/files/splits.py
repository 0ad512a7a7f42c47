"""Splits of a file source: what exists, how big it is, and which event times it holds.

A plan is made from these once and never from a listing again (FLIP-27: the split enumerator).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import check_event_time, differences, parse_schema
from sources.common.select import EventColumn
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import require_snapshot
from sources.errors import InputError
from sources.files.delta_table import list_table
from sources.files.format_registry import format_of
from sources.files.sampler import Sampler
from sources.files.time_range import in_range, in_range_by_folder
from sources.formats.base import Format
from sources.formats.compression import codec_of
from sources.formats.lines import BadRow
from sources.formats.open import open_file
from sources.formats.parquet import read_footers, table_of_ranges
from sources.formats.regions import Region, cut_regions
from sources.formats.text import TEXT_COLUMNS
from sources.storage.base import FILES, table_of
from sources.storage.listing import find_files, match_files
from sources.storage.partitions import by_folder, check_partitions, partition_of
from sources.storage.stores import Stores

# Columns of the table of splits, one row a split, in reading order.
SPLITS = pa.schema(
    [
        *FILES,
        ("offset", pa.int64()),  # first byte
        ("length", pa.int64()),  # bytes
        ("partition", pa.string()),  # what the folder's name tells of partition columns
        ("rows", pa.int64()),  # null where the format does not tell
        ("event_min_us", pa.int64()),  # null where the split is empty
        ("event_max_us", pa.int64()),
        ("nulls", pa.int64()),  # rows without an event time; null where nothing tells
    ]
)
_ORDER = [(name, "ascending") for name in ("event_min_us", "event_max_us", "path", "offset")]
REGION_BYTES = 64 << 20
_WORKERS = 16


@dataclass(frozen=True)
class FileListing:
    """All splits of one source.

    Attributes:
        splits: A table of schema :data:`SPLITS`, ordered by event time.
        read: The columns of the files, partition columns included.
        columns: Those that come out of the source's ``select``.
        partitions: Columns that no file holds.
        exact: Whether event times come from all rows, not from a sample.
        warnings: What people should know about it.
    """

    splits: pa.Table
    read: pa.Schema
    columns: pa.Schema
    partitions: list[str]
    exact: bool
    warnings: list[str] = field(default_factory=list)


@overload
def list_source(loaded: LoadedPipeline, source: FileSource) -> FileListing: ...


@overload
def list_source(
    loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray
) -> FileListing | None: ...


def list_source(
    loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray | None = None
) -> FileListing | None:
    """Look for a source's files and read what they tell.

    Args:
        loaded: The pipeline.
        source: One of its sources.
        known: Paths that were found before; they are left out.

    Returns:
        The splits; None if all files are known.

    Raises:
        InputError: There are none, or as :func:`list_splits` does.
        StateError: They are a snapshot that was not taken to its end.
    """
    stores = loaded.pipeline.stores
    if source.snapshot is not None:
        require_snapshot(source.patterns, loaded.folder, loaded.pipeline.name)
    if source.format == "delta":
        # A version of a table never grows.
        return None if known is not None else _list_table(loaded, source)
    if known is None:
        files = find_files(source.name, source.patterns, loaded.folder, stores)
    else:
        files = new_files(loaded, source, known)
        if not files.num_rows:
            return None
    return list_splits(source, loaded.pipeline.event_time, files, stores)


def new_files(loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray) -> pa.Table:
    """The files of a source that are not among those known by their paths.

    Raises:
        InputError: A storage can't be read.
    """
    files = match_files(source.patterns, loaded.folder, loaded.pipeline.stores)
    return files.filter(pc.invert(pc.is_in(files["path"], known)))


def list_splits(
    source: FileSource, event_time: str, files: pa.Table, stores: Stores
) -> FileListing:
    """Read the statistics of a source's files.

    Args:
        source: The declaration.
        event_time: The event-time column.
        files: The files, as :func:`sources.storage.listing.find_files` has them.
        stores: Where they are.

    Raises:
        InputError: One can't be read (which), columns differ between files (both shown), the
            event-time column is missing or no timestamp, or no file is in the time range.
    """
    files = _with_partitions(source, in_range_by_folder(source, files))
    declared = parse_schema(source.columns) if source.columns else None
    if declared is not None:
        # Before any file is opened.
        _selected(source, event_time, declared)
    warnings: list[str] = []
    if source.format == "parquet":
        splits, inside = _parquet_splits(source, event_time, files, stores)
    else:
        splits, inside, warnings = _sampled_splits(source, event_time, files, stores)
    exact = source.format in ("parquet", "orc")
    splits = in_range(source, splits, exact=exact)
    read, columns = _selected(source, event_time, inside)
    partitions = list(source.partitions)
    return FileListing(splits.sort_by(_ORDER), read, columns, partitions, exact, warnings)


def nothing_yet(source: FileSource, event_time: str, common: pa.Schema | None) -> FileListing:
    """The listing of a source that has no files yet, by what it declares.

    Args:
        source: The declaration.
        event_time: The event-time column.
        common: Columns of the sources before it, if there are any: its own, unless it says more.

    Raises:
        InputError: Nothing tells its columns.
    """
    inside = parse_schema(source.columns) if source.columns else None
    if source.format == "text":
        inside = TEXT_COLUMNS
    elif inside is None and common is not None and not source.select:
        inside = pa.schema([field for field in common if field.name not in source.partitions])
    if inside is None:
        message = f"Source `{source.name}`: there is no file yet that tells its columns."
        raise InputError(message, "Declare its `schema`.")
    read, columns = _selected(source, event_time, inside)
    return FileListing(SPLITS.empty_table(), read, columns, list(source.partitions), exact=True)


def _selected(
    source: FileSource, event_time: str, inside: pa.Schema
) -> tuple[pa.Schema, pa.Schema]:
    """The columns of files with these inside, and those that the source's ``select`` makes."""
    read = pa.schema([*inside, *parse_schema(source.partitions)])
    columns = source.selection.columns(read)
    check_event_time(columns, event_time, f"source `{source.name}`")
    return read, columns


def _parquet_splits(
    source: FileSource, event_time: str, files: pa.Table, stores: Stores
) -> tuple[pa.Table, pa.Schema]:
    declared = parse_schema(source.columns) if source.columns else None
    columns, first = declared, files["path"][0].as_py()
    event = _event_column(source, event_time)
    chunks = []
    names = declared.names if declared is not None else None
    for found in read_footers(files["path"].to_pylist(), event, names, stores):
        for path, schema in found.schemas:
            columns = columns or schema
            if rows := differences(columns, schema):
                raise InputError(_drift(source.name, first, path, rows))
        chunks.append(found.ranges)
    assert columns is not None
    return _assembled(files, pa.concat_tables(chunks)), columns


def _event_column(source: FileSource, event_time: str) -> EventColumn:
    event = source.selection.event_column(event_time)
    if event is None:
        text = source.select.get(event_time, "")
        message = f"Source `{source.name}`: `select.{event_time}: {text}` hides its column."
        hint = "Parquet's statistics tell of a plain column, or timestamp_millis(<column>)."
        raise InputError(message, hint)
    return event


def _list_table(loaded: LoadedPipeline, source: FileSource) -> FileListing:
    """The splits of a Delta table."""
    pipeline = loaded.pipeline
    event = _event_column(source, pipeline.event_time)
    found = list_table(source, loaded.locate(source.patterns[0]), event, pipeline.stores)
    files = table_of(found.files)
    files = files.append_column("partition", pa.array(found.partitions, pa.string()))
    splits = in_range_by_folder(source, _assembled(files, table_of_ranges(found.ranges)))
    splits = in_range(source, splits, exact=True)
    names = list(source.columns) if source.columns else found.columns.names
    read = pa.schema([field for field in found.columns if field.name in names])
    columns = source.selection.columns(read)
    check_event_time(columns, pipeline.event_time, f"source `{source.name}`")
    inside = [name for name in found.partition_columns if name in names]
    return FileListing(splits.sort_by(_ORDER), read, columns, inside, exact=True)


def _sampled_splits(
    source: FileSource, event_time: str, files: pa.Table, stores: Stores
) -> tuple[pa.Table, pa.Schema, list[str]]:
    """Splits of formats without statistics, large files in regions; and what is to be said."""
    form = format_of(source)
    columns, repeat, offsets, lengths = _own_columns(source, form, files, stores), [], [], []
    for at, (path, size) in enumerate(_pairs(files, "path", "size")):
        can_split = form.splits and codec_of(path) is None
        for offset, length in cut_regions(size, REGION_BYTES) if can_split else [(0, size)]:
            repeat.append(at)
            offsets.append(offset)
            lengths.append(length)
    _selected(source, event_time, columns)
    regions = files.take(pa.array(repeat, pa.int64()))
    regions = regions.append_column("offset", pa.array(offsets, pa.int64()))
    regions = regions.append_column("length", pa.array(lengths, pa.int64()))

    places = [Region(*row) for row in _pairs(regions, "path", "offset", "length", "size")]
    sampler = Sampler(source, columns, event_time, stores)
    with ThreadPoolExecutor(_WORKERS) as pool:
        ranges = list(pool.map(sampler.ends, places))
        if sampler.bad and any(found.high is not None for found in ranges):
            # Without a good row at its ends, only what lies between tells when to read a region.
            unknown = [at for at, found in enumerate(ranges) if found.high is None]
            found_inside = pool.map(sampler.first_good, [places[at] for at in unknown])
            for at, found in zip(unknown, found_inside, strict=True):
                ranges[at] = found
    return _assembled(regions, table_of_ranges(ranges)), columns, _said_of(source, sampler.bad)


def _said_of(source: FileSource, bad: Sequence[BadRow]) -> list[str]:
    if not bad:
        return []
    text = f"Source `{source.name}`: {len(set(bad)):,} of the rows looked at are bad."
    return [f"{text} {min(bad).place}: {min(bad).reason}."]


def _own_columns(source: FileSource, form: Format, files: pa.Table, stores: Stores) -> pa.Schema:
    declared = parse_schema(source.columns) if source.columns else None
    paths = [path for path, size in _pairs(files, "path", "size") if size]

    def told(path: str) -> pa.Schema | None:
        with open_file(path, form, stores) as file:
            return form.columns(file)

    columns = declared
    if paths and told(paths[0]) is None:
        # No file of this format tells: none more is opened to ask.
        paths = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        for path, schema in zip(paths, pool.map(told, paths), strict=True):
            assert schema is not None
            names = schema.names if declared is None else declared.names
            counted = pa.schema([field for field in schema if field.name in names])
            columns = columns or counted
            if rows := differences(columns, counted):
                raise InputError(_drift(source.name, paths[0], path, rows))
    if columns is None:
        message = f"Source `{source.name}`: all its {len(files)} files are empty."
        raise InputError(message, "History needs at least one row.")
    return columns


def _with_partitions(source: FileSource, files: pa.Table) -> pa.Table:
    names = list(source.partitions)
    if not names:
        return files.append_column("partition", pa.repeat(pa.scalar(""), len(files)))
    values = by_folder(files, lambda folder: partition_of(folder, names), pa.string())
    check_partitions(pc.unique(values).to_pylist(), source.partitions)
    return files.append_column("partition", values)


def _assembled(regions: pa.Table, ranges: pa.Table) -> pa.Table:
    if "offset" not in regions.column_names:
        zeros = pa.array(np.zeros(len(regions), np.int64))
        regions = regions.append_column("offset", zeros).append_column("length", regions["size"])
    columns = {name: regions[name] for name in regions.column_names}
    names = ("rows", "event_min_us", "event_max_us", "nulls")
    columns |= dict(zip(names, ranges.columns, strict=True))
    return pa.table([columns[name] for name in SPLITS.names], schema=SPLITS)


def _pairs(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _drift(source: str, first: str, other: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"    {name}: {left} | {right}" for name, left, right in rows]
    head = f"Source `{source}`: files differ in their columns.\n    {first} | {other}"
    return "\n".join([head, *lines])


def changed_splits(splits: pa.Table, stores: Stores) -> list[str]:
    """Planned files that are gone or were rewritten since (size, and ETag or modification time)."""
    first = splits.filter(pc.equal(splits["offset"], 0))
    paths = first["path"].to_pylist()
    changed = []
    planned = _pairs(first, *FILES.names)
    for was, file in zip(planned, stores.stat(paths), strict=True):
        path, size, modified_ns, etag = was
        if file is None:
            changed.append(f"{path} is gone")
        elif file.size != size or (
            # What a table's log names is never rewritten.
            modified_ns is not None and (file.etag or file.modified_ns) != (etag or modified_ns)
        ):
            changed.append(f"{path} was rewritten")
    return changed
