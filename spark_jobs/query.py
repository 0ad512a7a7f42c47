"""The one query: every source of the chain in its fixed place, a transform, a sink.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, goes on with all its state.
"""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.document import LoadedPipeline
from sources.errors import InputError, StateError
from sources.file_source import FileSource
from sources.functions import load_transform
from sources.hybrid import HybridSplitEnumerator
from sources.kafka import KafkaLog
from sources.kafka_source import KafkaSource
from sources.ledger import SeamCount
from sources.offsets import check_in_log
from sources.plan import require_plan
from sources.positions import Offsets, StartPosition, span_ms
from sources.rounds import history_of
from sources.schema import ddl
from sources.state import Generation
from sources.topic_plan import require_same_topics
from spark_jobs import checkpoint, sink
from spark_jobs.kafka_place import stream_topics, with_new_partitions
from spark_jobs.planned import PlannedSource
from spark_jobs.seam import Seam
from spark_jobs.values import parse_values
from spark_jobs.watermark import require_order


class Query:
    """The query of one run, built for the source whose turn it is.

    Args:
        spark: The session.
        loaded: The pipeline.
        generation: Its state.
        source: Name of the source that this run reads.

    Attributes:
        filtering: Whether the seam filter is in the query, once :meth:`writer` was called.
    """

    def __init__(
        self, spark: SparkSession, loaded: LoadedPipeline, generation: Generation, source: str
    ) -> None:
        self.spark = spark
        self.generation = generation
        self.filtering = False
        self._loaded = loaded
        self._pipeline = loaded.pipeline
        chain = self._pipeline.hybrid_source()
        self.place = chain.index(source)
        self.source = chain.sources[self.place]
        self.enumerator = HybridSplitEnumerator(chain, generation)
        self.plan = require_plan(generation)
        self.histories = {
            part.source: history_of(generation, self.plan, part.source) for part in self.plan.files
        }
        self.planned = {
            part.name: PlannedSource(
                part,
                self.histories[part.name].parts,
                generation,
                self._pipeline.event_time,
                self._pipeline.stores,
            )
            for part in chain.sources
            if isinstance(part, FileSource)
        }

    def writer(self) -> DataStreamWriter:
        """Check everything, prepare the target, and return the writer; the caller starts it.

        Raises:
            InputError: The transform does not fit, or planned files changed.
            SeamError: The start offsets are no longer in the log.
            StateError: It is not this source's turn, or the checkpoint or target is another's.
        """
        self.enumerator.require_turn(self.source.name)
        rows = load_transform(self._loaded)(self._union())
        self._check_result(rows)
        if self.source.name in self.histories:
            require_order(self.source.name, self.histories[self.source.name].disorder_ms, rows)
        path = self._loaded.locate(self._pipeline.sink.path)
        sink.prepare_table(self._pipeline.sink, path, rows, self.generation)
        writer = sink.write_stream(rows, self._pipeline.sink, path, self.generation)
        writer = writer.option("checkpointLocation", str(self.generation.checkpoint))
        if isinstance(self.source, FileSource):
            return writer.trigger(availableNow=True)
        interval_ms = span_ms(self.source.trigger_interval)
        return writer.trigger(processingTime=f"{interval_ms} milliseconds")

    def is_drained(self) -> bool:
        """Whether every planned split of this run's source was read and committed."""
        versions = len(self.histories[self.source.name].parts)
        return checkpoint.is_drained(self._committed(), versions)

    def has_passed_seam(self) -> bool:
        """Whether the filter that is in the query has nothing left to do."""
        return self.filtering and self._seam.is_passed(self._reached())

    def has_uncounted_seam(self) -> bool:
        """Whether a seam was filtered and is passed, but not counted yet."""
        return not self.filtering and self._seam.is_to_count()

    def count_seam(self) -> SeamCount:
        """Count what was in the seam that the stream has passed."""
        return self._seam.count(self.spark, self._history(), self._topic_columns())

    def look_up_older(self) -> int:
        """Resolve rows of the seam that are older than the keys kept of history.

        Returns:
            How many of them history holds.
        """
        self._require_unchanged()
        return self._seam.look_up_older(self.spark, self._history(), self._topic_columns())

    def _union(self) -> DataFrame:
        columns = self.plan.columns
        parts = [
            self._place(place, columns).select(*columns.names)
            for place in range(len(self._pipeline.sources))
        ]
        return reduce(DataFrame.unionByName, parts)

    def _place(self, place: int, columns: pa.Schema) -> DataFrame:
        source = self._pipeline.sources[place]
        if place > self.place:
            return self._placeholder(columns)
        if isinstance(source, FileSource):
            planned = self.planned[source.name]
            # What is drained is not read again: its files may go.
            if place == self.place:
                planned.require_unchanged()
            planned.prepare()
            return planned.stream(self.spark)
        return self._live(source, place)

    def _placeholder(self, columns: pa.Schema) -> DataFrame:
        # Only a glob that matches nothing can be swapped for the real source later: Spark
        # rebuilds the last batch at a restart, and checks the paths of a plain folder.
        nowhere = f"{self.generation.root}/nothing/*"
        return self.spark.readStream.schema(ddl(columns)).parquet(nowhere)

    def _live(self, source: KafkaSource, place: int) -> DataFrame:
        start = self.enumerator.require_start(source.name)
        log = KafkaLog(source)
        assert self.plan.topic is not None
        require_same_topics(self.plan.topic, log)
        self._check_start(log, place, start)
        partitions = with_new_partitions(start.offsets(), log.partitions)
        raw = stream_topics(self.spark, source, partitions)
        rows = parse_values(raw, source, self._topic_columns(), self.generation)
        seam = self._seam
        self.filtering = not seam.is_passed(self._reached())
        if not self.filtering:
            return rows
        if seam.needs_history():
            self._require_unchanged()
        return seam.filter(self._history()).apply(rows)

    def _check_start(self, log: KafkaLog, place: int, start: StartPosition) -> None:
        fixed = checkpoint.initial_kafka_offsets(self.generation.checkpoint, place)
        if fixed is None:
            check_in_log(start, log.log_start(), log.log_end())
            return
        for at, offset in start.offsets().items():
            if fixed.get(at) != offset:
                message = (
                    f"Topic `{at.topic}`, partition {at.partition} was decided to start at "
                    f"{offset}, but the checkpoint started it at {fixed.get(at)}."
                )
                hint = "Decision and checkpoint are of different generations: start over."
                raise StateError(message, hint)

    @cached_property
    def _seam(self) -> Seam:
        """The seam; what it is made of was decided for good before the run was started."""
        assert isinstance(self.source, KafkaSource)
        last = self.histories[self.plan.files[-1].source] if self.plan.files else None
        return Seam(
            self._pipeline,
            self.source,
            self.generation,
            ends=self.enumerator.ends_before(self.source.name),
            start=self.enumerator.require_start(self.source.name),
            seam_end=last.seam_end if last is not None else {},
        )

    def _require_unchanged(self) -> None:
        for source in self.planned.values():
            source.require_unchanged()

    def _history(self) -> DataFrame:
        batches = [source.batch(self.spark) for source in self.planned.values()]
        return reduce(DataFrame.unionByName, batches)

    def _topic_columns(self) -> dict[str, str]:
        assert self.plan.topic is not None
        return self.plan.topic.columns

    def _committed(self) -> Any:
        return checkpoint.committed_offset(self.generation.checkpoint, self.place)

    def _reached(self) -> Offsets:
        return checkpoint.reached(self.generation.checkpoint, self.place)

    def _check_result(self, rows: object) -> None:
        name = self._pipeline.transform
        if not isinstance(rows, DataFrame):
            message = f"`transform: {name}` returned a {type(rows).__name__}, not a DataFrame."
            raise InputError(message, "It must return the DataFrame to be written.")
        if not rows.isStreaming:
            message = f"`transform: {name}` returned a DataFrame that does not come from its input."
            raise InputError(message, "It must return the rows of its argument, transformed.")
