"""Splits of Parquet files, whose columns are the same or drift, by their footers.

Footers have the range of event times, so no row is read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sources.common.schema import differences, parse_schema
from sources.common.sql.select import EventColumn
from sources.common.widening import schema_with_types_from
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.open_columns import with_open_columns
from sources.files.columns.partition_columns_in_files import without_partitions
from sources.files.columns.schema_drift import Unified, unify
from sources.files.listing.split_table import assemble, columns_differ, settled_columns
from sources.formats.parquet.footers import Footers, read_footers
from sources.storage.stores import Stores


def event_column_of(source: FileSource, event_time: str) -> EventColumn:
    """Return the column of files that the event time is, or is converted from.

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column, after ``select``.

    Raises:
        InputError: ``select`` computes the event time in another way, so that the statistics of
            files say nothing about it.
    """
    event = source.event_column(event_time)
    if event is None:
        text = source.select.get(event_time, "")
        message = (
            f"Source `{source.name}`: the statistics of Parquet files can't be used for "
            f"`select.{event_time}: {text}`."
        )
        hint = (
            f"Let `select.{event_time}` be a plain column, or a conversion of one such as "
            "timestamp_millis(<column>); compute anything else in the `transform`."
        )
        raise InputError(message, hint, source=source.name, field=f"select.{event_time}")
    return event


def parquet_splits(
    source: FileSource,
    event_time: str,
    files: pa.Table,
    stores: Stores,
    planned: pa.Schema | None,
) -> tuple[pa.Table, pa.Schema, str | None]:
    """Return the splits of Parquet files of the same columns, by their footers.

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column, after ``select``.
        files: The files, at least one, with their partitions.
        stores: Storages of the pipeline.
        planned: Columns inside the files by the plan, whose types later files are read as; None
            while planning.

    Returns:
        A table of schema :data:`~sources.files.listing.split_table.SPLITS`; the columns inside the
        files; and the path of the first file that Spark's own reader does not take, if there is
        one.

    Raises:
        InputError: Columns differ between files; a file can't be read; or the event time is no
            column, nor a conversion of one.
        UnavailableError: A storage does not answer.
    """
    declared = parse_schema(source.columns) if source.columns else None
    columns, first = declared, files["path"][0].as_py()
    event = event_column_of(source, event_time)
    chunks = []
    parsed: str | None = None
    for footers in _footers(source, event, files, stores):
        for path, schema in footers.schemas:
            columns = schema if columns is None else schema_with_types_from(columns, schema)
            if rows := differences(columns, schema_with_types_from(schema, columns)):
                raise columns_differ(source.name, first, path, rows)
        chunks.append(footers.ranges)
        parsed = parsed or footers.parsed
    columns = schema_with_types_from(columns or pa.schema([]), planned or pa.schema([]))
    found = settled_columns(source.name, columns, first)
    return assemble(files, pa.concat_tables(chunks)), found, parsed


def drifted_splits(
    source: FileSource,
    event_time: str,
    files: pa.Table,
    stores: Stores,
    planned: pa.Schema | None,
) -> tuple[pa.Table, Unified, str | None]:
    """Return the splits of Parquet files whose columns may differ, and their common columns.

    Arguments, errors and the last part of the result, a path or None, are those of
    :func:`parquet_splits`; columns that differ are an error only where ``schema_drift`` does not
    allow it. Each split says by number (``layout``) which columns its file has.
    """
    event = event_column_of(source, event_time)
    schemas: list[tuple[str, pa.Schema]] = []
    chunks, layout_of = [], []
    parsed: str | None = None
    for footers in _footers(source, event, files, stores):
        known = [schema for _, schema in schemas]
        new = [each for each in footers.schemas if each[1] not in known]
        schemas += new
        known += [schema for _, schema in new]
        own = [known.index(schema) for _, schema in footers.schemas]
        layout_of += [own[index] for index in footers.schema_of]
        chunks.append(footers.ranges)
        parsed = parsed or footers.parsed
    paths = files["path"].to_pylist()
    opened = with_open_columns(source, (schemas, layout_of), paths, stores, planned)
    schemas, layout_of, parsed = opened.schemas, opened.schema_of, parsed or opened.first
    counts = np.bincount(layout_of, minlength=len(schemas)).tolist()
    unified = unify(source, schemas, counts, planned)
    files = files.append_column("layout", pa.array(layout_of, pa.int64()))
    return assemble(files, pa.concat_tables(chunks)), unified, parsed


def _footers(
    source: FileSource, event: EventColumn, files: pa.Table, stores: Stores
) -> Iterator[Footers]:
    """Yield what the footers of Parquet files say, without partition columns that they hold."""
    paths = files["path"].to_pylist()
    first = 0
    is_growing = source.discovery_interval is not None
    for footers in read_footers(paths, event, source.names_inside, stores, is_growing=is_growing):
        own = paths[first : first + len(footers.schema_of)]
        first += len(own)
        yield without_partitions(footers, own, parse_schema(source.partitions), stores)
