"""The one query: every source of the chain in its fixed place, a transform, a sink.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, goes on with all its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.document import LoadedPipeline
from sources.errors import InputError, StateError
from sources.hybrid import HybridSplitEnumerator
from sources.kafka import KafkaTopic
from sources.offsets import check_in_log
from sources.pipeline import FileSource, KafkaSource
from sources.plan import Plan
from sources.schema import ddl, parse_schema
from sources.state import Generation
from spark_jobs import checkpoint, sink
from spark_jobs.kafka_place import parse_values, stream_topic, with_new_partitions
from spark_jobs.planned import PlannedSource
from spark_jobs.seam_filter import SeamFilter
from spark_jobs.transform import load_transform


class Query:
    """The query of one run, built for the source whose turn it is.

    Args:
        spark: The session.
        loaded: The pipeline.
        generation: Its state.
        source: Name of the source that this run reads.
    """

    def __init__(
        self, spark: SparkSession, loaded: LoadedPipeline, generation: Generation, source: str
    ) -> None:
        self.spark = spark
        self.generation = generation
        self._loaded = loaded
        self._pipeline = loaded.pipeline
        chain = self._pipeline.hybrid_source()
        self.place = chain.index(source)
        self.source = chain.sources[self.place]
        self.enumerator = HybridSplitEnumerator(chain, generation)
        plan = generation.read("plan.json", Plan)
        if plan is None:
            message = f"Pipeline `{self._pipeline.name}` has no plan."
            raise StateError(message, "Make the plan first.")
        self.plan = plan
        self.planned = {
            part.name: PlannedSource(
                part, plan.files_of(part.name), generation, self._pipeline.event_time
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
        path = self._loaded.locate(self._pipeline.sink.path)
        sink.prepare_table(self._pipeline.sink, path, rows, self.generation)
        writer = sink.write_stream(rows, self._pipeline.sink, path, self.generation)
        writer = writer.option("checkpointLocation", str(self.generation.checkpoint))
        if isinstance(self.source, FileSource):
            return writer.trigger(availableNow=True)
        interval_ms = int(self.source.trigger_interval.total_seconds() * 1000)
        return writer.trigger(processingTime=f"{interval_ms} milliseconds")

    def is_drained(self) -> bool:
        """Whether every planned split of this run's source was read and committed."""
        offset = checkpoint.committed_offset(self.generation.checkpoint, self.place)
        return checkpoint.is_drained(offset)

    def look_up_older(self) -> int:
        """Resolve rows of the seam that are older than the keys kept of history.

        Returns:
            How many of them history holds.
        """
        assert isinstance(self.source, KafkaSource)
        assert self.plan.topic is not None
        seam = self._seam_filter()
        starts = self._decided_starts()
        return seam.look_up_older(self.spark, self.source, self.plan.topic.columns, starts)

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
            planned.prepare()
            return planned.stream(self.spark)
        return self._live(source, place)

    def _placeholder(self, columns: pa.Schema) -> DataFrame:
        # Only a glob that matches nothing can be swapped for the real source later: Spark
        # rebuilds the last batch at a restart, and checks the paths of a plain folder.
        nowhere = f"{self.generation.root}/nothing/*"
        return self.spark.readStream.schema(ddl(columns)).parquet(nowhere)

    def _live(self, source: KafkaSource, place: int) -> DataFrame:
        assert self.plan.topic is not None
        starts = self._decided_starts()
        topic = KafkaTopic(source.bootstrap_servers, source.topic)
        self._check_start(topic, place, starts)
        raw = stream_topic(self.spark, source, with_new_partitions(starts, topic.partitions))
        rows = parse_values(raw, parse_schema(self.plan.topic.columns))
        if place == 0 or self._pipeline.seam_filter == "off":
            return rows
        seam = self._seam_filter()
        committed = checkpoint.committed_offset(self.generation.checkpoint, place)
        reached = _partition_offsets(committed, source.topic) if committed else starts
        return rows if seam.is_passed(reached) else seam.apply(rows)

    def _decided_starts(self) -> dict[int, int]:
        return self.enumerator.require_start(self.source.name).offsets()

    def _check_start(self, topic: KafkaTopic, place: int, starts: dict[int, int]) -> None:
        fixed = checkpoint.initial_kafka_offsets(self.generation.checkpoint, place, topic.topic)
        if fixed is None:
            start = self.enumerator.require_start(self.source.name)
            check_in_log(start, topic.log_start(), topic.log_end())
            return
        moved = {number: at for number, at in starts.items() if fixed.get(number) != at}
        if moved:
            number, at = next(iter(moved.items()))
            message = (
                f"Partition {number} was decided to start at {at}, but the checkpoint "
                f"started it at {fixed.get(number)}."
            )
            hint = "Decision and checkpoint are of different generations: start over."
            raise StateError(message, hint)

    def _seam_filter(self) -> SeamFilter:
        assert self.plan.topic is not None
        ends = [self.enumerator.end_of(part.source) for part in self.plan.files]
        start = self.enumerator.require_start(self.source.name)
        times = [end.complete_through_ms for end in ends if end is not None]
        if start.time_ms is not None:
            times.append(start.time_ms)
        lateness_ms = int(self._pipeline.allowed_lateness.total_seconds() * 1000)
        batches = [source.batch(self.spark) for source in self.planned.values()]
        return SeamFilter(
            self.generation.path(f"seam/{self.source.name}"),
            reduce(DataFrame.unionByName, batches),
            self._pipeline,
            min(times) - lateness_ms,
            self.plan.topic.seam_end,
        )

    def _check_result(self, rows: object) -> None:
        name = self._pipeline.transform
        if not isinstance(rows, DataFrame):
            message = f"`transform: {name}` returned a {type(rows).__name__}, not a DataFrame."
            raise InputError(message, "It must return the DataFrame to be written.")
        if not rows.isStreaming:
            message = f"`transform: {name}` returned a DataFrame that does not come from its input."
            raise InputError(message, "It must return the rows of its argument, transformed.")


def _partition_offsets(offset: Mapping[str, Mapping[str, int]], topic: str) -> dict[int, int]:
    return {int(number): at for number, at in offset[topic].items()}
