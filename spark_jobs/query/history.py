"""History as the query sees it: the bounded sources that are read from a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from sources.config.rate_limit import Batch


class Planned(Protocol):
    """A source that is read from a plan, which a Delta log holds."""

    @property
    def entries(self) -> list[int]:
        """Number of entries in each version of its Delta log; the unit of Delta's offsets."""

    @property
    def largest(self) -> Batch:
        """The most that one micro-batch takes in."""

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return splits, rows (or None) and highest event time (ms, or None) of some entries."""

    def require_unchanged(self, entries_done: int = 0) -> None:
        """Refuse to read anything that differs from what was planned."""

    def prepare(self) -> None:
        """Write the versions of the Delta log that do not exist yet."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the source as a stream, in planned order."""

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return the whole source as a batch."""


@dataclass(frozen=True)
class EarlierSources:
    """The bounded sources before a place, as one batch.

    Attributes:
        planned: The sources, in order.
        columns: The columns that the transform sees.
    """

    planned: Sequence[Planned]
    columns: Sequence[str]

    def require_unchanged(self) -> None:
        """Refuse history that differs from what was planned.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of a planned range.
        """
        for source in self.planned:
            source.require_unchanged()

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all rows."""
        batches = [source.batch(spark).select(*self.columns) for source in self.planned]
        return reduce(DataFrame.unionByName, batches)
