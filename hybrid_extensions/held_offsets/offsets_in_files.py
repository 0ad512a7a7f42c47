"""Kafka offsets that files contain, by Kafka Connect's file names or by Parquet columns.

Ranges of offsets are half-open, except in messages that say "a to b".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hybrid_extensions.held_offsets.last_rows import LastRows
from hybrid_extensions.held_offsets.offset_ranges_in_names import Ints, Merged, judge, merge
from hybrid_extensions.held_offsets.same_log import compare_log
from sources.common.counting import counted
from sources.common.positions import HeldOffsets, TopicPartition
from sources.config.pipeline import Pipeline
from sources.config.source.file_options import OffsetColumns
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.held_offsets import OffsetsInFiles
from sources.files.listing.split_table import FileListing
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import unreadable
from sources.storage.stores import Stores

_WORKERS = 8
BATCH_ROWS = 1 << 18
"""Rows that are read at a time."""
_NAMED_HOLES = 10  # of each partition: the files around them are kept for messages
_END = np.iinfo(np.int64).max  # Kafka's offsets are below it, so that the one after the last fits
_NAME = re.compile(r"([A-Za-z0-9._-]+)\+([0-9]+)\+([0-9]+)(?:\+([0-9]+))?\..+")
_FORMS = (
    "Rename the file as Kafka Connect does: `topic+partition+start.ext` or "
    "`topic+partition+start+end.ext` (end inclusive), such as "
    "`orders+3+0000001200.snappy.parquet`. If it does not belong to the source, move it out of the "
    "source's folder. Then plan again: `hybrid plan P`."
)


@dataclass(frozen=True, eq=False)
class FileOffsets:
    """Kafka offsets whose records a file holds.

    Attributes:
        path: Path of the file.
        runs: By partition, ranges of offsets (first, after the last): first the longest ones
            without a hole, ascending; then those that the file holds a second time. The lengths of
            all ranges add up to the number of rows.
    """

    path: str
    runs: dict[TopicPartition, Ints]


def held_by_names(
    paths: Sequence[str], rows: Sequence[int | None]
) -> tuple[HeldOffsets, list[str]]:
    """Return the Kafka offsets that files contain, by the names that Kafka Connect's sinks use.

    ``topic+partition+start+end.ext`` (HDFS sink, inclusive end) is exact, unless ranges overlap and
    the numbers of rows don't fit (:mod:`hybrid_extensions.held_offsets.offset_ranges_in_names`).
    ``topic+partition+start.ext`` (S3 sink) has no end: the file is assumed to hold as many
    consecutive offsets as rows, which is never exact. A file without rows holds nothing.

    Args:
        paths: Paths of the files.
        rows: Number of rows of each file; None where not known: then, if the name has no end
            either, no holes are reported for the partition.

    Returns:
        Offsets that history holds; and warnings about files with an end that do not have as many
        rows as offsets.

    Raises:
        InputError: A name has neither form, ends before it starts, or contains or leads to an
            offset above Kafka's highest one, 2^63 - 2.
    """
    open_ended: set[TopicPartition] = set()
    lengthless: set[TopicPartition] = set()
    known: dict[TopicPartition, list[tuple[int, int]]] = {}
    files: dict[TopicPartition, list[str]] = {}
    counts: dict[TopicPartition, list[int | None]] = {}
    for path, count in zip(paths, rows, strict=True):
        partition, start, stop = _parse_name(path)
        if stop is None:
            open_ended.add(partition)
        if count == 0:
            continue
        if stop is None and count is None:
            lengthless.add(partition)
        reach = start + (count or 1) if stop is None else stop
        if reach >= _END:
            message = (
                f"By its name, file {path} would end at offset {reach - 1}, which is too high: "
                f"Kafka's highest offset is {_END - 1}."
            )
            raise InputError(message, _FORMS, file=path, topic=partition.topic)
        known.setdefault(partition, []).append((start, reach))
        files.setdefault(partition, []).append(path)
        counts.setdefault(partition, []).append(count)
    merged = {
        partition: merge([np.array(ranges, np.int64)])
        for partition, ranges in sorted(known.items())
    }
    judged = [
        judge(partition, known[partition], counts[partition], files[partition])
        for partition in merged
        if partition not in open_ended
    ]
    warnings = [warning for each in judged for warning in each.warnings]
    is_exact = not open_ended and all(each.is_exact for each in judged)
    edges = {
        partition: [
            (path, np.array([range_], np.int64))
            for path, range_ in zip(files[partition], ranges, strict=True)
        ]
        for partition, ranges in known.items()
    }
    held = _held(merged, edges, exact=is_exact)
    # Between files of unknown length everything would look like a hole.
    holes = {
        partition: ranges for partition, ranges in held.holes.items() if partition not in lengthless
    }
    beside = {partition: names for partition, names in held.beside.items() if partition in holes}
    return held.model_copy(update={"holes": holes, "beside": beside}), warnings


def held_by_columns(
    paths: Sequence[str],
    topic: str,
    partition_column: str,
    offset_column: str,
    stores: Stores,
    last_rows: LastRows | None = None,
) -> tuple[HeldOffsets, list[str]]:
    """Return the Kafka offsets that Parquet files contain, by columns of partition and offset.

    The columns of all rows are read, although statistics would be cheaper: a row group of ten rows
    with offsets 0 to 9 may hold 5 twice and lack 6, and no record may be lost by coincidence. Rows
    are read in batches. Memory holds 16 bytes for each run without a hole and each duplicate:
    little for files in the order of the log, as much as the offsets for shuffled files.

    Args:
        paths: Paths of the files.
        topic: Topic that all rows come from.
        partition_column: Column with Kafka's partition numbers.
        offset_column: Column with Kafka's offsets.
        stores: Storages that the files may be in.
        last_rows: Finds the last rows, which the log can be compared with; None to leave them out.

    Returns:
        Offsets that history holds, always exact; and warnings: one if rows are duplicated.

    Raises:
        InputError: A file can't be read, lacks a column, or a column is not of integers, has
            nulls or numbers that Kafka does not use.
        UnavailableError: A storage does not answer.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        columns = (partition_column, offset_column)
        files = list(pool.map(lambda path: _read_file(path, topic, columns, stores), paths))
    held, warnings = _merge_files(files)
    if last_rows is None:
        return held, warnings
    last = {
        at: file.path
        for file in files
        for at, runs in file.runs.items()
        if (runs[:, 1] == held.next[at]).any()
    }
    rows = last_rows.find(held, last)
    return held.model_copy(update={"rows": rows}), warnings


def _parse_name(path: str) -> tuple[TopicPartition, int, int | None]:
    """Return partition, first offset, and the offset after the last one if the name has it."""
    match = _NAME.fullmatch(Path(path).name)
    if match is None:
        message = f"The name of file {path} is not one that Kafka Connect writes."
        raise InputError(message, _FORMS, file=path)
    if int(match[4] or match[3]) >= _END:
        message = (
            f"The name of file {path} is not one that Kafka Connect writes: it contains offset "
            f"{match[4] or match[3]}, and Kafka's highest offset is {_END - 1}."
        )
        raise InputError(message, _FORMS, file=path, value=match[4] or match[3])
    start, end = int(match[3]), int(match[4] or match[3])
    if end < start:
        message = f"By its name, file {path} ends at offset {end}, before its start {start}."
        raise InputError(message, _FORMS, file=path)
    return TopicPartition(match[1], int(match[2])), start, end + 1 if match[4] else None


def _held(
    merged: dict[TopicPartition, Merged],
    edges: dict[TopicPartition, list[tuple[str, Ints]]],
    *,
    exact: bool,
) -> HeldOffsets:
    """Return what files hold together, from the union of ranges and those of each file."""
    holes, beside = {}, {}
    for partition, part in merged.items():
        begins = [0, *part.runs[:-1, 1].tolist()]
        between = zip(begins, part.runs[:, 0].tolist(), strict=True)
        if ranges := [(first, after) for first, after in between if first < after]:
            holes[partition] = ranges
            beside[partition] = [
                (_file_at(edges[partition], 1, first), _file_at(edges[partition], 0, after))
                for first, after in ranges[:_NAMED_HOLES]
            ]
    ends = {partition: int(part.runs[-1, 1]) for partition, part in merged.items()}
    return HeldOffsets(next=ends, exact=exact, holes=holes, beside=beside)


def _file_at(edges: list[tuple[str, Ints]], side: int, offset: int) -> str:
    """Return the file with a range that begins (0) or ends (1) at an offset; or empty text."""
    return next((path for path, runs in edges if (runs[:, side] == offset).any()), "")


def _merge_files(files: Sequence[FileOffsets]) -> tuple[HeldOffsets, list[str]]:
    found: dict[TopicPartition, list[tuple[str, Ints]]] = {}
    for file in files:
        for partition, runs in file.runs.items():
            found.setdefault(partition, []).append((file.path, runs))
    merged = {
        partition: merge([runs for _, runs in some]) for partition, some in sorted(found.items())
    }
    held = _held(merged, found, exact=True)
    doubles = [(partition, part) for partition, part in merged.items() if len(part.overlaps)]
    if not doubles:
        return held, []
    surplus = sum(int((part.overlaps[:, 1] - part.overlaps[:, 0]).sum()) for _, part in doubles)
    partition, (_, overlaps, pair) = doubles[0]
    ends = np.cumsum([len(runs) for _, runs in found[partition]])
    paths = {found[partition][index][0] for index in np.searchsorted(ends, pair, side="right")}
    return held, [
        f"Rows of history that are duplicated: {surplus}, such as the one with offset"
        f" {overlaps[0, 0]} of {partition} in {' and '.join(sorted(paths))}."
    ]


def _read_file(path: str, topic: str, columns: tuple[str, str], stores: Stores) -> FileOffsets:
    found: dict[TopicPartition, list[Ints]] = {}
    for numbers, offsets in _read_batches(path, columns, stores):
        order = np.argsort(numbers, kind="stable")
        present, firsts = np.unique(numbers[order], return_index=True)
        parts = np.split(offsets[order], firsts[1:])
        for number, part in zip(present.tolist(), parts, strict=True):
            merged = merge([np.column_stack([part, part + 1])])
            found.setdefault(TopicPartition(topic, number), []).append(merged.everything())
    return FileOffsets(
        path, {partition: merge(some).everything() for partition, some in found.items()}
    )


def _read_batches(path: str, columns: tuple[str, str], stores: Stores) -> Iterator[list[Ints]]:
    """Yield the values of the columns, batch by batch."""
    nulls = dict.fromkeys(columns, 0)
    try:
        with stores.of(path).open(path) as stream, parquet_file(stream) as file:
            for column in columns:
                _check_column(path, file.schema_arrow, column)
            for batch in file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False):
                for column in columns:
                    nulls[column] += batch.column(column).null_count
                # Once there are nulls, only their number matters.
                if not any(nulls.values()):
                    yield [_numbers(path, batch, column) for column in columns]
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from None
    for column, count in nulls.items():
        if count:
            message = (
                f"Column `{column}` is null in {counted(count, 'row')} of {path}, but each row "
                "needs the Kafka partition and offset that it comes from."
            )
            hint = (
                "Rewrite the file, or remove `offsets` from the source, so that the next one "
                "starts by time."
            )
            raise InputError(message, hint, file=path, column=column)


def _check_column(path: str, schema: pa.Schema, column: str) -> None:
    if column not in schema.names:
        message = f"There is no column `{column}` in {path}, which `offsets` of its source names."
        hint = f"Correct `offsets`; the file has {', '.join(schema.names)}."
        raise InputError(message, hint, file=path, column=column, field="offsets")
    kind = schema.field(column).type
    if not pa.types.is_integer(kind):
        message = (
            f"Column `{column}`, which `offsets` of its source names, is of type {kind} in {path}; "
            "Kafka's partitions and offsets are integers."
        )
        hint = "Name columns of integers under `offsets`, or rewrite the file."
        raise InputError(message, hint, file=path, column=column, field="offsets")


def _numbers(path: str, batch: pa.RecordBatch, column: str) -> Ints:
    values: Ints = batch.column(column).to_numpy(zero_copy_only=False)
    invalid = values[(values < 0) | (values >= _END)]
    if len(invalid):
        message = (
            f"Column `{column}`, which `offsets` of its source names, is {invalid[0]} in a row of "
            f"{path}; Kafka's partitions and offsets are from 0 to {_END - 1}."
        )
        hint = "Name other columns under `offsets`, or rewrite the file."
        raise InputError(message, hint, file=path, column=column, value=str(invalid[0]))
    return values.astype(np.int64, copy=False)


class _OffsetsInFiles:
    """Implements :class:`sources.files.held_offsets.OffsetsInFiles`."""

    by_names = staticmethod(held_by_names)
    compare_log = staticmethod(compare_log)

    def by_columns(
        self, pipeline: Pipeline, source: FileSource, listing: FileListing, paths: Sequence[str]
    ) -> tuple[HeldOffsets, list[str]]:
        columns, live = source.offsets, pipeline.topic_after(source.name)
        assert isinstance(columns, OffsetColumns)  # what the caller asks about
        assert live is not None
        last_rows = LastRows(pipeline, source, live, listing, columns)
        return held_by_columns(
            paths, live.topics[0], columns.partition, columns.offset, pipeline.stores, last_rows
        )


OFFSETS: OffsetsInFiles = _OffsetsInFiles()
