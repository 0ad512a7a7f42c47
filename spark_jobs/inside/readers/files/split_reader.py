"""Reading of splits in Spark tasks: each becomes its file's rows; damaged or changed files fail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sources.config.source.event_time import EventTime
from sources.config.source.file_options import ArrivalOrder
from sources.config.source.file_source import FileSource
from sources.files.format_registry import format_of
from sources.files.listing.changed_splits import refuse_changed
from sources.files.outside_bounds import find_outside, refuse_outside
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow, OnBad, refuse
from sources.formats.open_file import read_region
from sources.formats.parquet.rows import ArrivedRows
from sources.formats.row_check import RowCheck
from sources.storage.folder import Folder
from sources.storage.folder_partitions import typed_value, values_of
from sources.storage.stores import Stores
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.errors.error_reports import reporting
from spark_jobs.inside.readers.files.staged_outside_rows import BOUNDS
from spark_jobs.inside.readers.row_rules import FILE, ROW
from spark_jobs.inside.readers.staged_bad_records import RowStager

PLACES = pa.schema([(FILE, pa.string()), (ROW, pa.int64())])
"""Columns with the place of a row: :data:`~spark_jobs.inside.readers.row_rules.FILE_COLUMNS`."""


def split_reader(
    columns: pa.Schema,
    source: FileSource,
    event_time: EventTime,
    stores: Stores,
    staging: Folder | None = None,
) -> Step:
    """Return a ``mapInArrow`` function that replaces each split by the rows of its file.

    Its input are rows of a plan's log. A damaged file fails the task with an :class:`InputError`
    that names it, as does one that, once it was read, is not as planned. So does a bad row, or one
    whose event time does not count, unless it is left out (``on_bad_record``,
    ``event_time.outside``). A stream stages what is left out.

    Args:
        columns: The columns to return, partition columns included, and :data:`PLACES` if wanted.
        source: The declaration.
        event_time: Declaration of the event time; the bounds are those of each split.
        stores: The stores that hold the files.
        staging: Folder in which bad rows are staged; None for a batch.

    Raises:
        InputError: No installed extension reads the format, or its library is not installed.
    """
    whole = None if source.arrival is not None else format_of(source)
    elsewhere = {*source.partitions, *PLACES.names}
    inside = pa.schema([field for field in columns if field.name not in elsewhere])
    is_placed = FILE in columns.names

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bad, outside = _handlers(source, event_time, staging)
        for batch in batches:
            for split in batch.to_pylist():
                if not split["length"]:
                    continue
                check = None
                if event_time.outside != "keep":
                    low, high = (split[name] for name in BOUNDS.names)
                    find = find_outside(source, event_time.column, (low, high))
                    check = RowCheck(find, outside)
                constants = values_of(split["partition"])
                region = Region(*(split[name] for name in Region._fields))
                form = whole or _arrived(source.arrival, split["arrived_from"])
                # The rows of an interval are not numbered: others of the file lie between them.
                number = None if whole is None else region.offset
                for rows in read_region(form, region, inside, stores, bad, check):
                    if is_placed:
                        constants[FILE] = region.path
                        rows = _numbered(rows, number)  # noqa: PLW2901 - the same rows
                        number = None if number is None else number + len(rows)
                    yield _with_constants(rows, columns, constants)
            if "etag" in batch.schema.names:  # else the log is of a version without it
                splits, what = pa.Table.from_batches([batch]), "micro-batch was not written"
                refuse_changed(source.name, splits, stores, what)
        for handler in (bad, outside):
            if isinstance(handler, RowStager):
                handler.flush()

    return reporting(read)


def _arrived(order: ArrivalOrder | None, first: int) -> ArrivedRows:
    """Return the reader of the rows that arrived within an interval."""
    assert order is not None
    return ArrivedRows(order.arrival, first, first + order.step)


def _handlers(
    source: FileSource, event_time: EventTime, staging: Folder | None
) -> tuple[OnBad, OnBad]:
    """Return the handlers of bad rows, and of rows whose event time does not count."""
    bad: OnBad = refuse if source.on_bad_record == "fail" else _pass_over
    outside: OnBad = refuse_outside if event_time.outside == "fail" else _pass_over
    if staging is not None and source.on_bad_record != "fail":
        bad = RowStager(staging, keeps=source.on_bad_record == "quarantine")
    if staging is not None and event_time.outside in ("drop", "quarantine"):
        outside = RowStager(staging, keeps=event_time.outside == "quarantine", kind="outside")
    return bad, outside


def _pass_over(_: BadRow) -> None:
    """Skip a bad row: a batch reads again what a stream has staged before."""


def _numbered(rows: pa.RecordBatch, first: int | None) -> pa.RecordBatch:
    """Return rows with their numbers in :data:`ROW`, from ``first`` on; null without it."""
    numbers = pa.nulls(len(rows), pa.int64())
    if first is not None:
        numbers = pa.array(np.arange(first, first + len(rows)), pa.int64())
    return rows.append_column(ROW, numbers)


def _with_constants(
    rows: pa.RecordBatch, columns: pa.Schema, constants: dict[str, str | None]
) -> pa.RecordBatch:
    if not constants:
        return rows
    arrays = [
        pa.repeat(typed_value(constants[field.name], field.type), len(rows))
        if field.name in constants
        else rows[field.name]
        for field in columns
    ]
    return pa.record_batch(arrays, schema=columns)
