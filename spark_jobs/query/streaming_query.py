"""A query that runs: a handle on Spark's StreamingQuery and on what it reads."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.query.builder import BuiltQuery
from spark_jobs.query.declaration import QueryDeclaration
from spark_jobs.query.place import PlaceStream
from spark_jobs.query.seam import Seam


class RunningQuery:
    """A query of this project that was started.

    Args:
        declared: What it reads.
        built: The query, ready to be started.

    Attributes:
        declared: As given.
        stream: The stream of the source that it reads.
        is_paced: Whether a bounded run waits between its micro-batches.
        spark_query: Spark's own handle.
    """

    def __init__(self, declared: QueryDeclaration, built: BuiltQuery) -> None:
        self.declared = declared
        self.stream: PlaceStream = built.stream
        self.is_paced = built.is_paced
        self.spark_query: StreamingQuery = built.writer.start()

    def is_drained(self) -> bool:
        """Return whether everything that is planned of the source was read and committed."""
        return self.declared.is_drained()

    def is_over(self) -> bool:
        """Return whether a bounded run is to end now: another limit, or a paced one is drained."""
        return self.declared.has_new_rate() or (self.is_paced and self.is_drained())

    def is_outdated(self) -> bool:
        """Return whether a live query is no longer the one that would be built now."""
        declared = self.declared
        is_outdated = declared.place.is_outdated(self.stream, declared.committed())
        return is_outdated or declared.has_new_rate()

    def seam_to_count(self) -> Seam | None:
        """Return the seam, if it is passed and its rows were not counted yet; else None."""
        place = self.declared.place
        return place.seam if place.has_uncounted_seam(self.stream) else None
