"""The entries of a planned file source's Delta log: which splits each holds, and running totals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sources.config.file_options import FileBatch
from sources.config.file_source import FileSource
from sources.config.rate_limit import Batch
from sources.planning.file_plan import Ints, batch_ends
from spark_jobs.readers.plan_log import versions_of

_NO_TIME = np.iinfo(np.int64).min


class PlannedPart:
    """The splits of the plan, of a round or of a discovery; log entries are ranges of them.

    Args:
        splits: The table of splits, in reading order.
        source: The declaration.

    Attributes:
        splits: As given.
        ends: For each entry, the number of splits up to and including it.
    """

    def __init__(self, splits: pa.Table, source: FileSource) -> None:
        self.splits = splits
        self._limit: FileBatch = source.batch
        # Delta itself limits a micro-batch of single files; splits of other formats are grouped
        # into entries within the same limits.
        self.ends: Ints = (
            np.arange(1, len(splits) + 1)
            if source.is_parquet
            else batch_ends(splits["length"].to_pylist(), source.batch)
        )

    @cached_property
    def largest(self) -> Batch:
        """The most that one micro-batch of this part takes in."""
        if not self.splits:
            return Batch(bytes=0, files=0, rows=0)
        ends = batch_ends(self.splits["length"].to_pylist(), self._limit)
        starts = np.append(0, ends[:-1])

        def most(column: str) -> int:
            return int(np.add.reduceat(self.splits[column].to_numpy(), starts).max())

        rows = None if self.splits["rows"].null_count else most("rows")
        return Batch(most("length"), int((ends - starts).max()), rows)

    def group(self, rank: int) -> tuple[int, int]:
        """Return the first split of an entry, and the one after its last."""
        return int(self.ends[rank - 1]) if rank else 0, int(self.ends[rank])


class Version(NamedTuple):
    """One version of the Delta log.

    Attributes:
        part: Index of the part that its entries belong to.
        first: Index of its first entry in that part.
        stop: Index of the entry after its last.
    """

    part: int
    first: int
    stop: int


@dataclass(frozen=True)
class PlanEntries:
    """All entries of a planned file source, immutable: files that arrive make another object.

    Attributes:
        parts: The plan, and one more for each round or discovery.
    """

    parts: tuple[PlannedPart, ...]

    def with_part(self, part: PlannedPart) -> PlanEntries:
        """Return the entries with one more part behind them."""
        return PlanEntries((*self.parts, part))

    def versions(self) -> Iterator[Version]:
        """Yield the versions of the log, in order; no version holds entries of two parts."""
        for number, part in enumerate(self.parts):
            for first, stop in versions_of(len(part.ends)):
                yield Version(number, first, stop)

    @property
    def largest(self) -> Batch:
        """The most that one micro-batch takes in."""
        numbers = zip(*(part.largest for part in self.parts), strict=True)
        return Batch(*(None if None in of else max(of) for of in numbers))

    def splits(self) -> pa.Table:
        """Return all splits, in reading order."""
        return pa.concat_tables([part.splits for part in self.parts])

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return what the first entries hold.

        Returns:
            Splits; rows, or None if unknown; highest event time in ms, or None if unknown.
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
        highest = np.maximum.accumulate(table["event_max_us"].fill_null(_NO_TIME).to_numpy())
        known = not table["rows"].null_count
        rows = np.cumsum(table["rows"].to_numpy())[splits - 1] if known else None
        return splits, rows, highest[splits - 1]
