"""History as one batch of its bounded sources; refused if files or records differ from the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from sources.common.sql.sql_names import in_backticks
from sources.config.source.rate_limit import Batch


class Planned(Protocol):
    """Interface of a bounded source of history, read from a plan that is stored as a Delta log."""

    @property
    def entries(self) -> list[int]:
        """Number of entries (files) in each version of its Delta log.

        Delta's offsets count them, so a committed offset is turned into a position by this list.
        """

    @property
    def is_parsed(self) -> bool:
        """Whether all rows have to be parsed to find those of a range of event times."""

    @property
    def largest(self) -> Batch:
        """Highest numbers of bytes, files, rows or offsets that any one micro-batch reads.

        Each is a maximum of its own, maybe of different micro-batches; None where the source does
        not know the number. A rate limit is turned into an interval by it.
        """

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return how far the source was read after the first entries of its log.

        Args:
            entries: Number of entries that were read.

        Returns:
            Number of splits; number of rows, None if unknown; highest event time in ms, None if
            unknown.
        """

    def require_unchanged(self, entries_done: int = 0) -> None:
        """Refuse to read files or records that differ from what was planned.

        Called before a query is built.

        Args:
            entries_done: Number of log entries that were read already: their data may be gone.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of the planned range.
        """

    def prepare(self) -> None:
        """Write the versions of the source's Delta log that do not exist yet; it can be repeated.

        Call it before :meth:`stream` and :meth:`batch`, which read the log.
        """

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the source's rows as a stream, in planned order; call :meth:`prepare` before."""

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the source as a batch, whatever the stream has read so far.

        Call :meth:`prepare` before.
        """


@dataclass(frozen=True)
class EarlierSources:
    """History before a place: bounded sources, which are read together as one batch.

    Attributes:
        planned: Readers of these sources, in the order of the chain.
        columns: The columns that the transform sees.
    """

    planned: Sequence[Planned]
    columns: Sequence[str]

    @property
    def is_parsed(self) -> bool:
        """Whether all rows of a source have to be parsed to find those of a range of event times.

        Of Parquet files only those are read that the range is in.
        """
        return any(source.is_parsed for source in self.planned)

    def require_unchanged(self) -> None:
        """Refuse history whose files or records differ from what was planned.

        Called before all of history is read once more, for the seam filter.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of a planned range.
            UnavailableError: A broker or storage does not answer.
        """
        for source in self.planned:
            source.require_unchanged()

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all rows of these sources as one batch, with the transform's input columns.

        There has to be at least one source.
        """
        batches = [
            source.batch(spark).select(*map(in_backticks, self.columns)) for source in self.planned
        ]
        return reduce(DataFrame.unionByName, batches)
