"""Which records of a log a file history holds, where its files say so themselves.

Two ways lead there: the names that Kafka Connect's sinks give to files, and columns that keep each
row's Kafka partition and offset. Offsets are numbers of records, counted by Kafka for each
partition; ranges of them are half-open unless a text for people says "a to b".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sources.common.positions import HeldOffsets, TopicPartition
from sources.errors import InputError

Ints = NDArray[np.int64]
_WORKERS = 8
_BATCH_ROWS = 1 << 18
_END = np.iinfo(np.int64).max  # Kafka's offsets lie below it: the one after the last must fit
_NAME = re.compile(r"([A-Za-z0-9._-]+)\+([0-9]+)\+([0-9]+)(?:\+([0-9]+))?\..+")
_FORMS = (
    "Expected: `topic+partition+start.ext` or `topic+partition+start+end.ext` (end inclusive),"
    " such as `orders+3+0000001200.snappy.parquet`."
)


@dataclass(frozen=True, eq=False)
class FileOffsets:
    """Which records one file holds.

    Attributes:
        path: The file.
        runs: By partition, ranges of offsets, one a row (first, after the last): the longest ones
            without a hole, ascending; after them those that the file holds once more. So the
            lengths of all add up to the file's rows.
    """

    path: str
    runs: dict[TopicPartition, Ints]


class _Merged(NamedTuple):
    """Ranges of one partition laid over each other: what they cover, and what they share.

    ``overlaps`` has the part shared for each range that begins before all earlier ones have ended;
    ``pair`` are the positions of the two ranges of its first row. Lengths add up to the ranges'.
    """

    runs: Ints
    overlaps: Ints
    pair: list[int]

    def everything(self) -> Ints:
        return np.concatenate([self.runs, self.overlaps])


def held_by_names(
    paths: Sequence[str], rows: Sequence[int | None]
) -> tuple[HeldOffsets, list[str]]:
    """What the names of files tell that a sink of Kafka Connect wrote.

    ``topic+partition+start+end.ext``, the HDFS sink's form with an inclusive end, is exact.
    ``topic+partition+start.ext``, the S3 sink's form, tells no end: the file is taken to hold as
    many offsets from its start on as it has rows. That is wrong where offsets have gaps or a time
    partitioner spreads neighbours over several files, so it is not exact. A file without rows
    holds nothing, whatever its name says.

    Args:
        paths: The files.
        rows: Their numbers of rows; None where not known: no holes are told of that partition.

    Returns:
        What history holds, exact if all files tell their end; and warnings if files overlap that
        tell their ends.

    Raises:
        InputError: A name has neither form, or ends before it starts.
    """
    open_ended: set[TopicPartition] = set()
    lengthless: set[TopicPartition] = set()
    known: dict[TopicPartition, list[tuple[int, int]]] = {}
    files: dict[TopicPartition, list[str]] = {}
    for path, count in zip(paths, rows, strict=True):
        at, start, stop = _parse_name(path)
        if stop is None:
            open_ended.add(at)
        if count == 0:
            continue
        if stop is None and count is None:
            lengthless.add(at)
        reach = start + (count or 1) if stop is None else stop
        if reach >= _END:
            message = f"{path} would end at offset {reach}, if its name is right."
            raise InputError(message, _FORMS)
        known.setdefault(at, []).append((start, reach))
        files.setdefault(at, []).append(path)
    merged = {at: _merge([np.array(ranges, np.int64)]) for at, ranges in sorted(known.items())}
    # One warning a partition: a history copied twice has as many overlaps as files.
    warnings = [
        f"Files {' and '.join(files[at][index] for index in pair)} both hold offsets {first} to"
        f" {after - 1} of {at}: rows of history may be double"
        f" (overlaps in this partition: {len(overlaps)})."
        for at, (_, overlaps, pair) in merged.items()
        if at not in open_ended
        for first, after in overlaps[:1].tolist()
    ]
    held = _held(merged, exact=not open_ended)
    # Between files of unknown length everything would look like a hole.
    holes = {at: ranges for at, ranges in held.holes.items() if at not in lengthless}
    return held.model_copy(update={"holes": holes}), warnings


def held_by_columns(
    paths: Sequence[str], topic: str, partition_column: str, offset_column: str
) -> tuple[HeldOffsets, list[str]]:
    """What two columns of Parquet files tell that keep each row's Kafka partition and offset.

    The columns of all rows are read, though statistics cost less: a row group of ten rows with
    offsets 0 to 9 may hold 5 twice and lack 6, and a record must not be lost on a coincidence.
    A batch of rows is read at a time. What stays in memory are 16 bytes for each run without a hole
    and each double row: little for files in the log's order, as much as the offsets for shuffled.

    Args:
        paths: The files.
        topic: Topic that all their rows are from.
        partition_column: Column with Kafka's partition numbers.
        offset_column: Column with Kafka's offsets.

    Returns:
        What history holds, always exact; and a warning if rows are double.

    Raises:
        InputError: A file can't be read, lacks a column, or a column is not of integers, has
            nulls or numbers that Kafka does not use.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        columns = (partition_column, offset_column)
        return _merge_files(list(pool.map(lambda path: _read_file(path, topic, columns), paths)))


def _parse_name(path: str) -> tuple[TopicPartition, int, int | None]:
    """Partition, first offset, and the offset after the last one where the name tells."""
    found = _NAME.fullmatch(Path(path).name)
    if found is None or int(found[4] or found[3]) >= _END:
        message = f"{path} is not named as Kafka Connect names files."
        raise InputError(message, _FORMS)
    start, end = int(found[3]), int(found[4] or found[3])
    if end < start:
        message = f"{path} ends at offset {end}, before its start {start}, if its name is right."
        raise InputError(message, _FORMS)
    return TopicPartition(found[1], int(found[2])), start, end + 1 if found[4] else None


def _merge(parts: Sequence[Ints]) -> _Merged:
    """Lay ranges of one partition, at least one, over each other; in any order."""
    ranges = np.concatenate(parts)
    order = np.argsort(ranges[:, 0], kind="stable")
    starts, stops = ranges[order].T
    reach = np.maximum.accumulate(stops)
    opens = np.append(True, starts[1:] > reach[:-1])
    runs = np.column_stack([starts[opens], reach[np.append(opens[1:], True)]])
    again = np.flatnonzero(starts[1:] < reach[:-1]) + 1
    overlaps = np.column_stack([starts[again], np.minimum(stops[again], reach[again - 1])])
    # Up to the first overlap, the range that reaches furthest is the one just before.
    pair = order[again[0] - 1 : again[0] + 1].tolist() if len(again) else []
    return _Merged(runs, overlaps, pair)


def _held(merged: dict[TopicPartition, _Merged], *, exact: bool) -> HeldOffsets:
    holes = {}
    for at, part in merged.items():
        begins = [0, *part.runs[:-1, 1].tolist()]
        between = zip(begins, part.runs[:, 0].tolist(), strict=True)
        if ranges := [(first, after) for first, after in between if first < after]:
            holes[at] = ranges
    ends = {at: int(part.runs[-1, 1]) for at, part in merged.items()}
    return HeldOffsets(next=ends, exact=exact, holes=holes)


def _merge_files(files: Sequence[FileOffsets]) -> tuple[HeldOffsets, list[str]]:
    found: dict[TopicPartition, list[tuple[str, Ints]]] = {}
    for file in files:
        for at, runs in file.runs.items():
            found.setdefault(at, []).append((file.path, runs))
    merged = {at: _merge([runs for _, runs in some]) for at, some in sorted(found.items())}
    held = _held(merged, exact=True)
    doubles = [(at, part) for at, part in merged.items() if len(part.overlaps)]
    if not doubles:
        return held, []
    surplus = sum(int((part.overlaps[:, 1] - part.overlaps[:, 0]).sum()) for _, part in doubles)
    at, (_, overlaps, pair) = doubles[0]
    ends = np.cumsum([len(runs) for _, runs in found[at]])
    paths = {found[at][index][0] for index in np.searchsorted(ends, pair, side="right")}
    return held, [
        f"Rows of history that are double: {surplus}, such as the one with offset {overlaps[0, 0]}"
        f" of {at} in {' and '.join(sorted(paths))}."
    ]


def _read_file(path: str, topic: str, columns: tuple[str, str]) -> FileOffsets:
    found: dict[TopicPartition, list[Ints]] = {}
    for numbers, offsets in _read_batches(path, columns):
        order = np.argsort(numbers, kind="stable")
        present, firsts = np.unique(numbers[order], return_index=True)
        parts = np.split(offsets[order], firsts[1:])
        for number, part in zip(present.tolist(), parts, strict=True):
            merged = _merge([np.column_stack([part, part + 1])])
            found.setdefault(TopicPartition(topic, number), []).append(merged.everything())
    return FileOffsets(path, {at: _merge(some).everything() for at, some in found.items()})


def _read_batches(path: str, columns: tuple[str, str]) -> Iterator[list[Ints]]:
    """The columns' values, batch by batch."""
    nulls = dict.fromkeys(columns, 0)
    try:
        with pq.ParquetFile(path) as file:
            for column in columns:
                _check_column(path, file.schema_arrow, column)
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns), use_threads=False):
                for column in columns:
                    nulls[column] += batch.column(column).null_count
                # Once there are nulls, only their number still matters.
                if not any(nulls.values()):
                    yield [_numbers(path, batch, column) for column in columns]
    except (OSError, pa.ArrowException) as error:
        message = f"{path} can't be read as Parquet: {error}"
        raise InputError(message, "Repair or remove it, then plan again.") from None
    for column, count in nulls.items():
        if count:
            message = f"`{column}` is null in {count} of the rows of {path}."
            raise InputError(message, "Each row needs the partition and offset it came from.")


def _check_column(path: str, schema: pa.Schema, column: str) -> None:
    if column not in schema.names:
        message = f"There is no column `{column}` in {path}."
        raise InputError(message, f"It has {', '.join(schema.names)}.")
    kind = schema.field(column).type
    if not pa.types.is_integer(kind):
        message = f"`{column}` is of type {kind} in {path}."
        raise InputError(message, "Kafka's partitions and offsets are integers.")


def _numbers(path: str, batch: pa.RecordBatch, column: str) -> Ints:
    values: Ints = batch.column(column).to_numpy(zero_copy_only=False)
    strange = values[(values < 0) | (values >= _END)]
    if len(strange):
        message = f"`{column}` is {strange[0]} in a row of {path}."
        raise InputError(message, f"Kafka's partitions and offsets are from 0 to {_END - 1}.")
    return values.astype(np.int64, copy=False)
