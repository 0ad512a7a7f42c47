"""Entries of a plan's Delta log: the splits of each, and how far a source was read after some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import Batch
from sources.planning.files.aligned_batches import TICK, ends_by_tick
from sources.planning.files.micro_batches import Ints, micro_batches
from spark_jobs.inside.readers.files.plan_log import versions_of

_NO_TIME = np.iinfo(np.int64).min


class PlannedPart:
    """Splits of one listing, and the entries of the Delta log, each a range of splits.

    The plan is one part; each round (a further listing before the hand-over) and each discovery
    (a listing of a folder that keeps filling) is another one.

    Args:
        splits: The table of splits, in reading order.
        source: The declaration, whose ``batch`` limits a micro-batch.

    Attributes:
        splits: The table of splits, as given.
        ends: For each log entry, the number of splits up to and including it. An entry of Parquet
            is one file; of other formats it is a whole micro-batch, which has no split where only
            another input has rows at that time.
    """

    def __init__(self, splits: pa.Table, source: FileSource) -> None:
        self.splits = splits
        self._batches = micro_batches(splits, source)
        # Delta itself limits a micro-batch of single files; splits of other formats are grouped
        # into entries within the same limits.
        self.ends: Ints = (
            np.arange(1, len(splits) + 1) if source.is_read_by_spark else self._batches
        )
        if TICK in splits.column_names:
            self.ends = ends_by_tick(splits)

    @cached_property
    def largest(self) -> Batch:
        """Highest numbers of bytes, splits (as ``files``) and rows that a micro-batch reads.

        Computed once, over the micro-batches of this part. Each number is a maximum of its own,
        maybe of different micro-batches. Rows are None if a split's number of rows is unknown.
        """
        if not self.splits:
            return Batch(bytes=0, files=0, rows=0)
        ends = self._batches
        starts = np.append(0, ends[:-1])

        def most(column: str) -> int:
            return int(np.add.reduceat(self.splits[column].to_numpy(), starts).max())

        rows = None if self.splits["rows"].null_count else most("rows")
        return Batch(most("length"), int((ends - starts).max()), rows)

    def splits_of(self, rank: int) -> tuple[int, int]:
        """Return the splits of a log entry: index of the first, and index after the last.

        Args:
            rank: Index of the entry in this part, from 0.
        """
        return int(self.ends[rank - 1]) if rank else 0, int(self.ends[rank])


class Version(NamedTuple):
    """One version of a planned source's Delta log: a range of one part's entries.

    Attributes:
        part: Index of the part (:attr:`PlanEntries.parts`) that its entries belong to.
        first: Index of its first entry in that part.
        stop: Index of the entry after its last.
    """

    part: int
    first: int
    stop: int


@dataclass(frozen=True)
class PlanEntries:
    """Log entries of a planned file source; immutable, new files make a new object.

    Attributes:
        parts: Parts of the plan: the first listing, then one for each round or discovery.
    """

    parts: tuple[PlannedPart, ...]

    def with_part(self, part: PlannedPart) -> PlanEntries:
        """Return a copy with another part, that of a further listing, at the end."""
        return PlanEntries((*self.parts, part))

    def versions(self) -> Iterator[Version]:
        """Yield the versions of the Delta log, from 0; no version holds entries of two parts."""
        for number, part in enumerate(self.parts):
            for first, stop in versions_of(len(part.ends)):
                yield Version(number, first, stop)

    @property
    def largest(self) -> Batch:
        """Highest numbers of bytes, splits (as ``files``) and rows that a micro-batch reads.

        Computed over all parts. Each number is a maximum of its own, maybe of different
        micro-batches. Rows are None if a split's number of rows is unknown.
        """
        numbers = zip(*(part.largest for part in self.parts), strict=True)
        return Batch(*(None if None in of else max(of) for of in numbers))

    def splits(self) -> pa.Table:
        """Return the splits of all listings as one table, in the order in which they are read."""
        return pa.concat_tables([part.splits for part in self.parts])

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return how far the source was read after the first entries of its log.

        Args:
            entries: Number of entries that were read.

        Returns:
            Number of splits; number of rows, None if it is unknown for any split of the source;
            highest event time in ms, None if it is unknown or nothing was read.

        Raises:
            IndexError: There are fewer entries.
        """
        if not entries:
            return 0, 0, None
        splits, rows, highest = self._totals
        at = entries - 1
        high = int(highest[at])
        return (
            int(splits[at]),
            None if rows is None else int(rows[at]),
            None if high == _NO_TIME else high // 1000,
        )

    @cached_property
    def _totals(self) -> tuple[Ints, Ints | None, Ints]:
        """After each entry: splits, rows, highest event time in microseconds."""
        before = np.cumsum([0, *(len(part.splits) for part in self.parts)])
        splits = np.concatenate(
            [part.ends + first for part, first in zip(self.parts, before, strict=False)]
        )
        table = self.splits()
        times = table["event_max_us"].fill_null(_NO_TIME).to_numpy()
        # The first entries may have no split.
        highest = np.maximum.accumulate(np.append(_NO_TIME, times))
        known = not table["rows"].null_count
        rows = np.append(0, np.cumsum(table["rows"].to_numpy()))[splits] if known else None
        return splits, rows, highest[splits]
