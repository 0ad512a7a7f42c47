"""Offset ranges in file names against row counts: overlaps, duplicated rows, missing files.

A partitioner by time or by a field distributes neighbours over several files, so that the range in
one name may lie inside that of another. Only numbers of rows then show whether a file is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sources.common.positions import TopicPartition

Ints = NDArray[np.int64]


class Merged(NamedTuple):
    """Union and overlaps of ranges of offsets of one partition; ranges are half-open pairs.

    Attributes:
        runs: Union of the ranges, as ascending ranges with holes between them.
        overlaps: For each range that begins before all earlier ones have ended, the shared part.
            The lengths of ``runs`` and ``overlaps`` add up to those of all ranges.
        pair: Indexes of the two ranges of the first overlap; empty without any.
    """

    runs: Ints
    overlaps: Ints
    pair: list[int]

    def everything(self) -> Ints:
        """Return ``runs`` and ``overlaps`` in one array; lengths add up to those of all ranges."""
        return np.concatenate([self.runs, self.overlaps])


def merge(parts: Sequence[Ints]) -> Merged:
    """Compute union and overlaps of ranges of offsets of one partition.

    Args:
        parts: At least one array of rows (first, after the last), in any order.
    """
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
    return Merged(runs, overlaps, pair)


class JudgedRanges(NamedTuple):
    """Result of :func:`judge`: whether file names tell which offsets a partition's files hold.

    Attributes:
        is_exact: Whether they tell it exactly.
        warnings: Sentences for the plan; one of each kind at most.
    """

    is_exact: bool
    warnings: list[str]


def judge(
    partition: TopicPartition,
    ranges: Sequence[tuple[int, int]],
    rows: Sequence[int | None],
    files: Sequence[str],
) -> JudgedRanges:
    """Compare the offset ranges in the names of a partition's files with their row counts.

    The ranges are exact where they don't overlap, or where overlapping files have as many rows as
    offsets. Fewer or more rows give a warning: a file may be missing, or rows may be doubled.

    Args:
        partition: The partition, for the warnings.
        ranges: First offset, and the one after the last, by each file's name.
        rows: Number of rows of each file; None where not known.
        files: Paths of the files.
    """
    every = np.array(ranges, np.int64)
    groups = [_Group(every, rows, members) for members in _overlapping(every)]
    short = [group for group in groups if group.rows is not None and group.rows < group.offsets]
    distributed = [group for group in groups if len(group.members) > 1]
    doubled = [group for group in distributed if group.rows is None or group.rows > group.offsets]
    warnings = []
    if doubled:
        # One warning: a history copied twice has as many overlaps as files.
        first, second = doubled[0].members[merge([every[doubled[0].members]]).pair].tolist()
        low, high = (
            max(ranges[first][0], ranges[second][0]),
            min(ranges[first][1], ranges[second][1]),
        )
        number = sum(len(group.members) - 1 for group in doubled)
        warnings.append(
            f"Files {files[first]} and {files[second]} both hold offsets {low} to {high - 1} of "
            f"{partition}: rows of history may be duplicated (overlaps in this partition: "
            f"{number})."
        )
    if short:
        group = short[0]
        more = f" (and {len(short) - 1} more such ranges)" if len(short) > 1 else ""
        warnings.append(
            f"By their names, the files of offsets {group.low} to {group.high - 1} of {partition}, "
            f"such as {files[group.members[0]]}, hold {group.offsets} offsets, but they have "
            f"{group.rows} rows{more}: a file may be missing. Markers of transactions and "
            "compaction leave such offsets out, too."
        )
    is_unknown = any(group.rows is None for group in distributed)
    return JudgedRanges(not distributed or not (short or is_unknown), warnings)


class _Group:
    """Files whose ranges overlap, or a single one.

    Args:
        every: Ranges of all files.
        rows: Rows of all files.
        members: Which of them these are, by the beginning of their ranges.
    """

    def __init__(self, every: Ints, rows: Sequence[int | None], members: Ints) -> None:
        self.members = members
        self.low, self.high = int(every[members[0], 0]), int(every[members, 1].max())
        counts = [rows[at] for at in members.tolist()]
        known = [count for count in counts if count is not None]
        self.rows = sum(known) if len(known) == len(counts) else None
        self.offsets = self.high - self.low


def _overlapping(every: Ints) -> list[Ints]:
    """Return the numbers of ranges that overlap with each other, group by group, ascending."""
    order = np.argsort(every[:, 0], kind="stable")
    starts, stops = every[order].T
    begins = np.flatnonzero(starts[1:] >= np.maximum.accumulate(stops)[:-1]) + 1
    return np.split(order, begins)
