"""Running query: when a bounded one is over, and a live one is outdated and has to be restarted."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.builder import BuiltQuery
from spark_jobs.inside.query.places.place import PlaceStream
from spark_jobs.inside.query.query_sources import QueryDeclaration


class RunningQuery:
    """Started query of this project with Spark's handle on it; creating this object starts it.

    Args:
        declared: Declaration of the query.
        built: The query, ready to be started.

    Attributes:
        declared: Declaration of the query, as given.
        stream: The stream of the source that the run reads.
        streams: All streams that the run reads, by the numbers of their places: ``stream``, and
            those of the topics of other inputs.
        is_paced: Whether a bounded run waits between its micro-batches to keep a rate limit.
        guard: Sees what others do to the target while the query runs.
        has_watermark: Whether stateful operators may drop late rows.
        spark_query: Spark's own handle on the query.
    """

    def __init__(self, declared: QueryDeclaration, built: BuiltQuery) -> None:
        self.declared = declared
        self.stream: PlaceStream = built.stream
        self.streams: dict[int, PlaceStream] = {declared.index: built.stream, **built.beside}
        self.is_paced = built.is_paced
        self.guard = built.guard
        self.has_watermark = built.has_watermark
        self.spark_query: StreamingQuery = built.writer.start()

    def is_drained(self) -> bool:
        """Return whether every planned split of the source was read and committed by now.

        By the checkpoint; always False for a source without an end.
        """
        return self.declared.is_drained()

    def is_over(self) -> bool:
        """Return whether a bounded run's query has to be stopped, as it won't end by itself.

        So it has if the rate limit was changed, or if all is read under a rate limit. Asked at each
        look at the query.

        Raises:
            StateError: The document of the rate limit or the checkpoint is damaged.
            UnavailableError: The state's store does not answer.
        """
        return self.declared.has_new_rate() or (self.is_paced and self.is_drained())

    def is_outdated(self) -> bool:
        """Return whether a live query would now be built differently, so that it must restart.

        It must if its seam filter has nothing left to do, its rate limit was changed, or larger
        files have arrived. False as long as its last micro-batch is not reported, by which rows
        removed of the seam are counted; a new rate does not wait for that. Asked at each look at
        the query.

        Raises:
            StateError: The document of the rate limit or the checkpoint is damaged.
            UnavailableError: The state's store does not answer.
        """
        declared = self.declared
        is_outdated = any(
            declared.places[number].is_outdated(stream, declared.committed(number))
            for number, stream in self.streams.items()
        )
        return (is_outdated and self._has_reported()) or declared.has_new_rate()

    def _has_reported(self) -> bool:
        """Return whether all that was removed of the seam is reported; true if nothing is removed.

        A query that is stopped right after a commit does not report its micro-batch.
        """
        if not self.stream.filtering:
            return True
        committed = offset_log.last_committed(self.declared.generation.checkpoint)
        latest = self.spark_query.lastProgress
        return committed is None or (latest is not None and latest.batchId >= committed)
