"""Table of splits: one row for each file, or region of a large file, that a plan reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sources.common.schema import (
    MOST_DIGITS,
    alike_names,
    check_event_time,
    is_open,
    leaves,
    parse_schema,
)
from sources.common.widening import without_nulls
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.drifted_layouts import Layout
from sources.files.columns.mapped_columns import MappedColumns
from sources.files.tables.table_position import TablePosition
from sources.formats.event_times import EVERY_TIME, TimeLimits
from sources.storage.base import FILES

SPLITS = pa.schema(
    [
        *FILES,
        ("offset", pa.int64()),  # first byte
        ("length", pa.int64()),  # bytes
        ("partition", pa.string()),  # values of partition columns, as in the folder's name
        ("layout", pa.int64()),  # of the file's columns; null unless `schema_drift` is declared
        ("deleted", pa.binary()),  # deletion vector of the file; null without deleted rows
        ("arrived_from", pa.int64()),  # start of the interval; null unless by arrival
        ("rows", pa.int64()),  # null where the format does not record it
        ("event_min_us", pa.int64()),  # of the rows that count; null where there is none
        ("event_max_us", pa.int64()),
        ("nulls", pa.int64()),  # rows without an event time; null where not known
        ("outside", pa.int64()),  # rows whose event time does not count, among those looked at
        ("outside_min_us", pa.int64()),  # of these rows; null where there is none
        ("outside_max_us", pa.int64()),
    ]
)
"""Columns of the table of splits: each row is a split, and rows are in reading order."""
# Columns that not all files have a value of, in this order; plans of older versions lack them.
_LATER = ("layout", "deleted", "arrived_from")
RANGE_COLUMNS = SPLITS.names[SPLITS.names.index("rows") :]
"""Columns of the table of splits that an ``EventTimeRange`` holds, in the order of its fields."""
READING_ORDER = [(name, "ascending") for name in ("event_min_us", "event_max_us", "path", "offset")]
"""Columns by which a table of splits is sorted where rows are read by event time."""


@dataclass(frozen=True)
class FileListing:
    """All splits of one file source, by one listing of its folder or table.

    Attributes:
        splits: A table of schema :data:`SPLITS`, in reading order: by event time, or by arrival if
            declared.
        read: Columns of the files before ``select``, partition columns included.
        columns: Output columns of the source, after ``select``.
        partitions: Names of the partition columns, whose values no file holds.
        exact: Whether event times come from all rows, not from a sample.
        warnings: Sentences that the plan shows.
        limits: Limits within which event times count and are read.
        layouts: How the columns of the files differ from ``read``; empty unless ``schema_drift`` is
            declared. A split's ``layout`` is its index in this list.
        mapping: Names of the columns inside the files of a table; None if they are the same.
        parsed: Path of the first Parquet file that Spark's own reader does not accept, so that this
            project's tasks parse all files; None if Spark reads them.
        position: Version of the Delta table that the files are of; None without one.
    """

    splits: pa.Table
    read: pa.Schema
    columns: pa.Schema
    partitions: list[str]
    exact: bool
    warnings: list[str] = field(default_factory=list)
    limits: TimeLimits = EVERY_TIME
    layouts: list[Layout] = field(default_factory=list)
    mapping: MappedColumns | None = None
    parsed: str | None = None
    position: TablePosition | None = None


def assemble(regions: pa.Table, ranges: pa.Table) -> pa.Table:
    """Join files or regions with their rows and event times to a table of schema :data:`SPLITS`.

    The order of rows is kept; nothing is sorted.

    Args:
        regions: Files (:data:`sources.storage.base.FILES`) with their ``partition``, and their
            ``layout`` and ``deleted`` if they have any; with ``offset`` and ``length`` in bytes if
            they are regions, otherwise each file becomes one split.
        ranges: Number of rows and event times (microseconds) of each region, in the same order, as
            ``sources.formats.event_times.table_of_ranges`` returns them.
    """
    if "offset" not in regions.column_names:
        zeros = pa.array(np.zeros(len(regions), np.int64))
        regions = regions.append_column("offset", zeros).append_column("length", regions["size"])
    columns = {name: regions[name] for name in regions.column_names}
    for name in _LATER:
        columns.setdefault(name, pa.nulls(len(regions), SPLITS.field(name).type))
    columns |= dict(zip(RANGE_COLUMNS, ranges.columns, strict=True))
    return pa.table([columns[name] for name in SPLITS.names], schema=SPLITS)


def with_later_columns(splits: pa.Table) -> pa.Table:
    """Return a table of splits with the columns, as nulls, that older plans do not have yet.

    The same table if it has all of them.

    Args:
        splits: The table, as a plan holds it.
    """
    for name in _LATER:
        if name not in splits.column_names:
            at = SPLITS.names.index(name)
            nulls = pa.nulls(len(splits), SPLITS.field(at).type)
            splits = splits.add_column(at, SPLITS.field(at), nulls)
    return splits


def selected_columns(
    source: FileSource, event_time: str, inside: pa.Schema
) -> tuple[pa.Schema, pa.Schema]:
    """Return two schemas: columns of a source's files, and output columns after ``select``.

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column among the output columns.
        inside: Columns inside the files, without partition columns, which are appended.

    Raises:
        InputError: Two columns differ in case only, ``select`` fails, or the event-time column is
            missing or no timestamp.
    """
    read = pa.schema([*inside, *parse_schema(source.partitions)])
    if (alike := alike_names(read.names)) is not None:
        one, other = alike
        message = (
            f"Source `{source.name}`: columns `{one}` and `{other}` differ only in upper and lower "
            "case, which Spark does not tell apart."
        )
        raise InputError(message, in_one_case(one, other), source=source.name, column=other)
    columns = source.selection.columns(read)
    check_event_time(columns, event_time, f"source `{source.name}`")
    return read, columns


def settled_columns(source: str, columns: pa.Schema, file: str) -> pa.Schema:
    """Return columns in Spark's types: Arrow's null type, of a column without values, becomes int.

    Args:
        source: Name of the source, for messages.
        columns: The columns; some may have a type that is still open
            (:func:`sources.common.schema.is_open`).
        file: Path of one of the files, for messages.

    Raises:
        InputError: A column is a decimal of more digits than Spark has.
    """
    for each in columns:
        wide = [leaf for leaf in leaves(each.type) if pa.types.is_decimal(leaf) and is_open(leaf)]
        if wide:
            message = (
                f"Source `{source}`: column `{each.name}` is a decimal of up to "
                f"{wide[0].precision} digits, such as in {file}; Spark has at most {MOST_DIGITS}."
            )
            kind = f"decimal({MOST_DIGITS},{wide[0].scale})"
            hint = (
                f"Declare all columns in `schema`, this one as `{each.name}: {kind}`: a value "
                "that does not fit is refused then. Or leave it out of `schema`."
            )
            raise InputError(message, hint, source=source, file=file, column=each.name)
    return pa.schema([(each.name, without_nulls(each.type)) for each in columns])


def row_tuples(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of a table as tuples with the values of some columns.

    Args:
        table: The table.
        names: Columns, in the order of the tuples.

    Raises:
        KeyError: The table has no such column.
    """
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def columns_differ(
    source: str, first: str, other: str, rows: list[tuple[str, str, str]]
) -> InputError:
    """Return the error, for the caller to raise, for two files of a source with other columns.

    Args:
        source: Name of the source.
        first: Path of one file.
        other: Path of the other file.
        rows: Differences, at least one: column, type in the first file, type in the other one, as
            :func:`sources.common.schema.differences` returns them.
    """
    lines = [f"    {name}: {left} | {right}" for name, left, right in rows]
    head = f"Source `{source}`: files differ in their columns.\n    {first} | {other}"
    hint = (
        "If they are the same columns over time, declare `schema_drift: {}` for the source: files "
        "are then read as one where no value loses anything. Otherwise write the files of one kind "
        "again with the columns of the others; or declare one source for each kind, whose `path` "
        "matches these files only, with a `select` that makes the columns the same."
    )
    if (alike := alike_names(name for name, _, _ in rows)) is not None:
        hint = in_one_case(*alike)
    return InputError("\n".join([head, *lines]), hint, source=source, file=other, column=rows[0][0])


def in_one_case(one: str, other: str) -> str:
    """Return the hint for two column names that differ only in case, which Spark can't distinguish.

    Args:
        one: A name.
        other: The other one.
    """
    return (
        f"If they are one column of different files, declare `schema_drift: {{renamed: "
        f"{{{other}: {one}}}}}`; otherwise write the files again with other names."
    )
