"""Listing of a file source: which splits exist, how big they are, and their event times.

A plan is made from one listing; what is read never depends on a later one (FLIP-27: the split
enumerator).
"""

from __future__ import annotations

from functools import partial
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import check_event_time, parse_schema
from sources.common.sql.select import EventColumn
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.file_options import ArrivalOrder
from sources.config.source.file_source import FileSource
from sources.config.source.snapshot import folder_of, require_snapshot
from sources.errors import InputError
from sources.extensions import required
from sources.files.columns.drifted_layouts import Layout, with_files
from sources.files.columns.schema_drift import check_names
from sources.files.listing.parquet_splits import drifted_splits, event_column_of, parquet_splits
from sources.files.listing.sampled_splits import sampled_splits
from sources.files.listing.sampler import Sampler
from sources.files.listing.split_table import (
    READING_ORDER,
    SPLITS,
    FileListing,
    assemble,
    row_tuples,
    selected_columns,
)
from sources.files.tables.lake import followed_tables, lister_of
from sources.files.tables.table_commits import Appended
from sources.files.tables.table_files import require_declared, require_names
from sources.files.tables.table_times import times_within
from sources.files.time_range import in_range, in_range_by_folder, time_limits, within_limits
from sources.formats.base import TEXT_COLUMNS
from sources.formats.event_times import EVERY_TIME, TimeLimits, table_of_ranges
from sources.formats.file_regions import Region
from sources.storage.base import table_of
from sources.storage.folder_partitions import by_folder, check_partitions, partition_of
from sources.storage.listing import (
    find_files,
    match_files,
    require_no_table_above,
    would_match,
)
from sources.storage.stores import Stores

_REGION = ("path", "offset", "length", "size")


@overload
def list_source(
    loaded: LoadedPipeline, source: FileSource, *, clock_ms: int | None = None
) -> FileListing: ...


@overload
def list_source(
    loaded: LoadedPipeline,
    source: FileSource,
    known: pa.ChunkedArray,
    *,
    clock_ms: int | None = None,
    planned: pa.Schema | None = None,
) -> FileListing | None: ...


def list_source(
    loaded: LoadedPipeline,
    source: FileSource,
    known: pa.ChunkedArray | None = None,
    *,
    clock_ms: int | None = None,
    planned: pa.Schema | None = None,
) -> FileListing | None:
    """List a source's files, and read their columns and event times.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        known: Paths of files to leave out, as they were listed before; None to list all files.
        clock_ms: The clock at which the bounds of event times are measured, in Unix milliseconds;
            now if None.
        planned: Columns inside the files by the plan; with ``schema_drift``, files that arrived
            later are read as these. None while planning.

    Returns:
        The splits; None if ``known`` is given and no other file exists. A table has no others, as
        its declared version never changes; what is appended to one that is followed is listed by
        :func:`list_appended`.

    Raises:
        InputError: Without ``known`` no file matches; a file can't be read; columns differ between
            files; the event-time column is missing or no timestamp; no file is in the time range;
            the globs match files of the pipeline's own target; or a storage refuses.
        UnavailableError: A storage does not answer.
        StateError: The files are a database snapshot that is not complete.
    """
    pipeline = loaded.pipeline
    stores = pipeline.stores
    limits = time_limits(
        pipeline.event_time, source.time_range, now_ms() if clock_ms is None else clock_ms
    )
    written = written_chunks(loaded, source, is_later=known is not None)
    if source.is_table:
        # A version of a table never grows.
        return None if known is not None else _list_table(loaded, source, limits)
    _refuse_own_target(loaded, source)
    if known is None:
        files = find_files(source.name, source.patterns, loaded.folder, stores)
    else:
        files = new_files(loaded, source, known)
    if written is not None:
        names = [path.rpartition("/")[2] for path in files["path"].to_pylist()]
        files = files.filter(pa.array([each in written for each in names], pa.bool_()))
    if known is not None:
        if not files.num_rows:
            return None
        require_no_table_above(source.name, files, source.patterns, loaded.folder, stores)
    return list_splits(source, pipeline.event_time.column, files, stores, limits, planned)


def _refuse_own_target(loaded: LoadedPipeline, source: FileSource) -> None:
    """Refuse globs that would match files of the pipeline's own target, once that has any."""
    target, folders = loaded.target.url, [f"{each}=0" for each in loaded.pipeline.sink.partition_by]
    file = "/".join([target, *folders, "part-0.snappy.parquet"])
    if any(would_match(pattern, loaded.folder, file) for pattern in source.patterns):
        message = (
            f"Source `{source.name}`: its `path` matches files of {target}, the table that this "
            "pipeline writes to: its rows would be read and written again."
        )
        hint = "Let `path` not match them, or declare another `sink.path`."
        raise InputError(message, hint, source=source.name, field="path", file=target)


def list_appended(loaded: LoadedPipeline, source: FileSource, appended: Appended) -> FileListing:
    """List the files that commits of a table append, which the source follows.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        appended: What the commits append.

    Raises:
        InputError: The table can't be read, or not at that version any more.
        UnavailableError: A storage does not answer.
    """
    limits = time_limits(loaded.pipeline.event_time, source.time_range, now_ms())
    return _list_table(loaded, source, limits, appended)


def written_chunks(
    loaded: LoadedPipeline, source: FileSource, *, is_later: bool
) -> set[str] | None:
    """Return the names of the chunks of a database snapshot that are written, as files to read.

    None for a source without ``snapshot``: all its files may be read. A snapshot has to be
    complete, unless the folder is listed again or the source has ``follow: while_reading``; then a
    file counts once the snapshot's manifest names it.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        is_later: Whether the folder is listed again, after the plan was made.

    Raises:
        InputError: The folder's store refuses.
        StateError: No chunk of the snapshot is written; it is not complete, and has to be; a file
            of it is missing, or one that it does not name is in its folder; or its manifest is
            damaged.
        UnavailableError: The folder's store does not answer.
    """
    if source.snapshot is None:
        return None
    where = loaded.place(folder_of(source.patterns))
    is_open = is_later or source.follows_while_reading
    return require_snapshot(where, loaded.pipeline.name, is_open=is_open).files


def new_files(loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray) -> pa.Table:
    """List a source's files, and return those whose paths are not known yet; none is opened.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        known: Paths of files that are left out.

    Returns:
        A table of schema :data:`sources.storage.base.FILES`, which may have no rows.

    Raises:
        InputError: A storage refuses.
        UnavailableError: A storage does not answer.
    """
    files = match_files(source.name, source.patterns, loaded.folder, loaded.pipeline.stores)
    return files.filter(pc.invert(pc.is_in(files["path"], known)))


def list_splits(
    source: FileSource,
    event_time: str,
    files: pa.Table,
    stores: Stores,
    limits: TimeLimits = EVERY_TIME,
    planned: pa.Schema | None = None,
) -> FileListing:
    """Read columns and event times of files, and return them as splits in reading order.

    Read are Parquet footers, all rows of ORC files, and of other formats a sample of rows. The
    ranges are those of rows that count and are read; for this the event-time column of a Parquet
    file is read, if its footer shows that it has other rows.

    Args:
        source: Declaration of the source, of any format but those of tables (Delta, Iceberg).
        event_time: Name of the event-time column, after ``select``.
        files: The files, as :func:`sources.storage.listing.find_files` returns them.
        stores: Storages of the pipeline.
        limits: Limits within which event times count and are read.
        planned: Columns inside the files by the plan; None while planning.

    Raises:
        InputError, UnavailableError: As :func:`list_source`.
    """
    _require_inside(source, event_time)
    files = _with_partitions(source, in_range_by_folder(source, files))
    declared = parse_schema(source.columns) if source.columns else None
    if declared is not None:
        # Checked before any file is opened.
        selected_columns(source, event_time, declared)
    warnings: list[str] = []
    exact = source.format in ("parquet", "orc")
    # Files are chosen by all their rows; the range of rows that count is found after that.
    first = limits._replace(first=EVERY_TIME.first, last=EVERY_TIME.last) if exact else limits
    layouts: list[Layout] = []
    parsed: str | None = None
    if source.format == "parquet" and source.schema_drift is not None:
        splits, unified, parsed = drifted_splits(source, event_time, files, stores, planned)
        inside, layouts, warnings = unified
    elif source.format == "parquet":
        splits, inside, parsed = parquet_splits(source, event_time, files, stores, planned)
    else:
        splits, unified = sampled_splits(source, event_time, files, stores, first, planned)
        inside, layouts, warnings = unified
    splits = in_range(source, splits, exact=exact)
    if source.format == "parquet":
        event = event_column_of(source, event_time)
        read_times = partial(
            times_within, partition=None, event=event, limits=limits, stores=stores
        )
        splits = within_limits(source, splits, limits, read_times)
    elif exact:
        sampler = Sampler(source, inside, event_time, stores, limits)
        splits = within_limits(
            source,
            splits,
            limits,
            lambda cut: [sampler.ends(Region(*row)) for row in row_tuples(cut, *_REGION)],
        )
    read, columns = selected_columns(source, event_time, inside)
    partitions = list(source.partitions)
    if source.arrival is not None:
        event = event_column_of(source, event_time)
        ordered, warnings = by_arrival(source.name, source.arrival, splits, event, limits, stores)
    else:
        ordered = splits.sort_by(READING_ORDER)
    layouts = with_files(layouts, ordered)
    return FileListing(
        ordered, read, columns, partitions, exact, warnings, limits, layouts, parsed=parsed
    )


def by_arrival(
    source: str,
    order: ArrivalOrder,
    splits: pa.Table,
    event: EventColumn,
    limits: TimeLimits,
    stores: Stores,
) -> tuple[pa.Table, list[str]]:
    """Divide files into splits by the interval in which rows arrived, by the installed extension.

    Args:
        source: Name of the source, for messages.
        order: The declared order.
        splits: The files: a table of schema :data:`~sources.files.listing.split_table.SPLITS`.
        event: Column of the event time.
        limits: Limits within which event times count.
        stores: Storages that the files may be in.

    Returns:
        The splits, one for each file and interval, in order of arrival; and warnings.

    Raises:
        InputError: No installed extension does that; a file can't be read, or its column of arrival
            does not fit.
    """
    does, otherwise = "reads files in order of arrival", "remove `order`"
    divide = required("arrival_order", does, otherwise, field="order")
    found: tuple[pa.Table, list[str]] = divide(source, order, splits, event, limits, stores)
    return found


def nothing_yet(
    source: FileSource, event_time: str, common: pa.Schema | None, limits: TimeLimits
) -> FileListing:
    """Return the empty listing of a growing folder that has no files yet, with its columns.

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column, after ``select``.
        common: Columns of the sources before it, used if the source declares neither ``schema`` nor
            ``select``; None if there are none.
        limits: Limits within which event times count and are read.

    Raises:
        InputError: The source declares no ``schema``, and its columns are not known otherwise; the
            event-time column is missing or no timestamp; or ``schema_drift`` names a column that
            does not exist.
    """
    inside = parse_schema(source.columns) if source.columns else None
    if source.format == "text":
        inside = TEXT_COLUMNS
    elif inside is None and common is not None and not source.select:
        inside = pa.schema([field for field in common if field.name not in source.partitions])
    if inside is None:
        message = f"Source `{source.name}` has no file of its own yet: its columns are not known."
        hint = (
            "Declare the source's `schema` (column names and types), or put a first file into its "
            "folder; then plan again."
        )
        raise InputError(message, hint, source=source.name, field="schema")
    if source.schema_drift is not None:
        check_names(source.name, inside, source.schema_drift)
    read, columns = selected_columns(source, event_time, inside)
    partitions = list(source.partitions)
    # Later files may be written in any way, so tasks of this project parse them.
    parsed = source.patterns[0] if source.format == "parquet" else None
    none = SPLITS.empty_table()
    return FileListing(none, read, columns, partitions, exact=True, limits=limits, parsed=parsed)


def _require_inside(source: FileSource, event_time: str) -> None:
    """Refuse an event time that is, or is computed from, a column that only folder names hold."""
    if source.select and event_time not in source.select:
        return
    used = source.selection.inputs(event_time) & set(source.partitions)
    if not used:
        return
    message = (
        f"Source `{source.name}`: the event time `{event_time}` is read from the partition column "
        f"`{min(used)}`, whose values are in folder names; the plan needs one for each row."
    )
    hint = (
        "Name a column of the files as `event_time`, or compute it from one in `select`. If the "
        f"files hold `{min(used)}` themselves, remove it from `partitions`."
    )
    raise InputError(message, hint, source=source.name, column=min(used), field="event_time")


def _list_table(
    loaded: LoadedPipeline,
    source: FileSource,
    limits: TimeLimits,
    appended: Appended | None = None,
) -> FileListing:
    """Return the splits of a version of a table, or of the files that its commits append."""
    pipeline = loaded.pipeline
    event = event_column_of(source, pipeline.event_time.column)
    source.require_place()
    place = loaded.locate(source.patterns[0])
    if appended is None:
        table = lister_of(source).list_table(source, place, event, pipeline.stores)
    else:
        tables = followed_tables(source)
        table = tables.list_appended(source, place, event, pipeline.stores, appended)
    files = table_of(table.files)
    files = files.append_column("partition", pa.array(table.partitions, pa.string()))
    files = files.append_column("deleted", pa.array(table.deleted, pa.binary()))
    splits = in_range_by_folder(source, assemble(files, table_of_ranges(table.ranges)))
    splits = in_range(source, splits, exact=True)
    is_partition = event.name in table.partition_columns
    read_times = partial(
        times_within,
        partition=table.columns.field(event.name) if is_partition else None,
        event=table.event,
        limits=limits,
        stores=pipeline.stores,
    )
    splits = within_limits(source, splits, limits, read_times)
    names = list(source.columns) if source.columns else table.columns.names
    require_declared(source, table.columns)
    read = pa.schema([field for field in table.columns if field.name in names])
    require_names(source.name, read)
    columns = source.selection.columns(read)
    check_event_time(columns, pipeline.event_time.column, f"source `{source.name}`")
    inside = [name for name in table.partition_columns if name in names]
    ordered = splits.sort_by(READING_ORDER)
    return FileListing(
        ordered,
        read,
        columns,
        inside,
        exact=True,
        limits=limits,
        mapping=table.mapping,
        position=table.position,
    )


def _with_partitions(source: FileSource, files: pa.Table) -> pa.Table:
    names = list(source.partitions)
    if not names:
        return files.append_column("partition", pa.repeat(pa.scalar(""), len(files)))
    values = by_folder(files, lambda folder: partition_of(folder, names), pa.string())
    check_partitions(pc.unique(values).to_pylist(), source.partitions)
    return files.append_column("partition", values)
