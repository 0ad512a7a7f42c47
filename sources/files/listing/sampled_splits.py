"""Splits of formats without statistics: large files in regions, event times from a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from sources.common.counting import counted
from sources.common.schema import differences, parse_schema
from sources.common.widening import schema_with_types_from
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.columns.schema_drift import Unified, unify
from sources.files.format_registry import format_of
from sources.files.listing.sampler import Sampler
from sources.files.listing.split_table import (
    assemble,
    columns_differ,
    row_tuples,
    selected_columns,
    settled_columns,
)
from sources.formats.base import Format
from sources.formats.compression import codec_of
from sources.formats.event_times import EVERY_TIME, TimeLimits, table_of_ranges
from sources.formats.file_regions import REGION_BYTES, Region, cut_regions
from sources.formats.lines import BadRow
from sources.formats.open_file import open_file
from sources.storage.stores import Stores

_WORKERS = 16


def sampled_splits(
    source: FileSource,
    event_time: str,
    files: pa.Table,
    stores: Stores,
    limits: TimeLimits = EVERY_TIME,
    planned: pa.Schema | None = None,
) -> tuple[pa.Table, Unified]:
    """Read the columns and sampled event times of files whose format has no statistics.

    Large files are cut into regions of at most
    :data:`~sources.formats.file_regions.REGION_BYTES` where their format allows it.

    Args:
        source: Declaration of the source.
        event_time: Name of the event-time column, after ``select``.
        files: A table of schema :data:`sources.storage.base.FILES`, with their ``partition``.
        stores: Storages of the pipeline.
        limits: Limits within which event times count and are read.
        planned: Columns inside the files by the plan; None while planning.

    Returns:
        The splits (schema :data:`sources.files.listing.split_table.SPLITS`); and the common columns
        inside the files, without partition columns, with warnings such as about tolerated bad rows.

    Raises:
        InputError: A file can't be read, or files differ in their columns.
        UnavailableError: A storage does not answer.
    """
    form = format_of(source)
    unified, layout_of = _columns_inside(source, form, files, stores, planned)
    columns = unified.columns
    files = files.append_column("layout", pa.array(layout_of, pa.int64()))
    repeat, offsets, lengths = [], [], []
    for row, (path, size) in enumerate(row_tuples(files, "path", "size")):
        can_split = form.splits and codec_of(path) is None
        for offset, length in cut_regions(size, REGION_BYTES) if can_split else [(0, size)]:
            repeat.append(row)
            offsets.append(offset)
            lengths.append(length)
    selected_columns(source, event_time, columns)
    regions = files.take(pa.array(repeat, pa.int64()))
    regions = regions.append_column("offset", pa.array(offsets, pa.int64()))
    regions = regions.append_column("length", pa.array(lengths, pa.int64()))

    places = [Region(*row) for row in row_tuples(regions, "path", "offset", "length", "size")]
    sampler = Sampler(source, columns, event_time, stores, limits)
    with ThreadPoolExecutor(_WORKERS) as pool:
        ranges = list(pool.map(sampler.ends, places))
        outside = any(part.outside for part in ranges)
        if outside or (sampler.bad and any(part.high is not None for part in ranges)):
            # Without a row that counts at its ends, a region has the time of a row in between.
            unknown = [row for row, part in enumerate(ranges) if part.high is None]
            inside = pool.map(sampler.first_good, [places[row] for row in unknown])
            for row, part in zip(unknown, inside, strict=True):
                ranges[row] = ranges[row]._replace(low=part.low, high=part.high)
    splits = assemble(regions, table_of_ranges(ranges))
    warnings = [*unified.warnings, *_warnings(source, sampler.bad)]
    return splits, unified._replace(warnings=warnings)


def _warnings(source: FileSource, bad: Sequence[BadRow]) -> list[str]:
    if not bad:
        return []
    text = f"Source `{source.name}`: {len(set(bad)):,} of the sampled rows are bad."
    return [f"{text} {min(bad).place}: {min(bad).reason}."]


def _columns_inside(
    source: FileSource, form: Format, files: pa.Table, stores: Stores, planned: pa.Schema | None
) -> tuple[Unified, list[int | None]]:
    """Return the columns that files are read with, and the layout of each file."""
    # Names in another case are looked at, too: Spark does not tell them from the declared ones.
    names = source.names_inside and {*map(str.lower, source.names_inside)}
    paths = [path for path, size in row_tuples(files, "path", "size") if size]

    def schema_of(path: str) -> pa.Schema | None:
        with open_file(path, form, stores) as file:
            return form.columns(file)

    if paths and schema_of(paths[0]) is None:
        # Files of this format have no schema: no further one is opened for it.
        paths = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = [
            pa.schema([each for each in schema or [] if not names or each.name.lower() in names])
            for schema in pool.map(schema_of, paths)
        ]
    if paths and source.drift is not None:
        schemas: list[tuple[str, pa.Schema]] = []
        of: dict[str, int] = {}
        for path, schema in zip(paths, found, strict=True):
            known = [each for _, each in schemas]
            if schema not in known:
                schemas.append((path, schema))
            of[path] = known.index(schema) if schema in known else len(known)
        counts = Counter(of.values())
        unified = unify(source, schemas, [counts[at] for at in range(len(schemas))], planned)
        return unified, [of.get(path) for path in files["path"].to_pylist()]
    columns = parse_schema(source.columns) if source.columns else None
    for path, schema in zip(paths, found, strict=True):
        columns = schema if columns is None else schema_with_types_from(columns, schema)
        if rows := differences(columns, schema_with_types_from(schema, columns)):
            raise columns_differ(source.name, paths[0], path, rows)
    if columns is None:
        message = (
            f"Source `{source.name}`: its {counted(len(files), 'file is', 'files are all')} empty, "
            "and it declares no `schema`, so its columns are not known."
        )
        hint = (
            "Correct `path` so that it matches a file with rows, declare the source's `schema`, or "
            "remove the source; then plan again: `hybrid plan P`."
        )
        raise InputError(message, hint, source=source.name, field="schema")
    if paths:
        filled = schema_with_types_from(columns, planned or pa.schema([]))
        columns = settled_columns(source.name, filled, paths[0])
    return Unified(columns, [], []), [None] * len(files)
