"""The one query: every source of the chain in its fixed place, a transform, a sink.

Spark's checkpoint knows its sources by their place in the plan. A source whose turn has not come
is an empty placeholder, one whose turn is over is drained; so the same query, launched again on
the same checkpoint with the next source in its place, goes on with all its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sources.common.positions import EndPosition, Offsets, StartPosition, iso, span_ms
from sources.common.schema import ddl, parse_schema
from sources.common.state import Generation
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.rate_limit import RateLimit, interval_ms, live_pace, rate_of
from sources.config.user_functions import load_transform
from sources.decoding.added_columns import types_of
from sources.errors import InputError, StateError
from sources.generations import target_of
from sources.hybrid import Boundedness, SwitchState
from sources.kafka.client import KafkaLog
from sources.kafka.start_checks import check_in_log, check_not_deleted
from sources.ledger import SeamCount
from sources.planning.context import PipelineContext
from sources.planning.discovery import GrowingFolder
from sources.planning.file_plan import FoundFiles
from sources.planning.plan import require_plan
from sources.planning.rounds import history_of
from sources.planning.topic_plan import TopicPlan, require_same_topics
from sources.planning.topic_range import find_range, require_range, seam_end_after
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.transform_history import Transform, first_batch, take_over
from spark_jobs.checkpoint.transform_shape import Shape, digest, digest_of_code
from spark_jobs.checkpoint.watermark import require_order
from spark_jobs.query.kafka_stream import stream_topics, with_new_partitions
from spark_jobs.query.parse_records import parse_values
from spark_jobs.query.planned_files import PlannedSource
from spark_jobs.query.planned_topic import PlannedTopic
from spark_jobs.query.seam import Seam
from spark_jobs.query.select import select_columns
from spark_jobs.target import sink
from spark_jobs.target.added_columns import with_added
from spark_jobs.target.history_files import keep_history_files

# How often a folder's log is looked at for what was discovered.
_LOOK_MS = 500
# Partitions that are told one by one.
_SHOWN = 8


@dataclass(frozen=True)
class Prepared:
    """Rows of a topic that is to be followed, made while history is still read.

    Attributes:
        made_of: Start offsets, limit and filter. Where these turn out to be the same, so are the
            rows.
        rows: The rows.
    """

    made_of: tuple[Any, ...]
    rows: DataFrame


class Query:
    """The query of one run, built for the source whose turn it is.

    Args:
        spark: The session.
        loaded: The pipeline.
        generation: Its state.
        source: Name of the source that this run reads.
        prepared: What the same driver made of that source before, if it did.

    Attributes:
        folder: The folder that this run follows, if its source is one that keeps filling.
        filtering: Whether the seam filter is in the query, once :meth:`writer` was called.
        is_paced: Whether a bounded run waits between its micro-batches, likewise.
        changed: What is to be told of a transform that is another one than before, likewise.
    """

    def __init__(
        self,
        spark: SparkSession,
        loaded: LoadedPipeline,
        generation: Generation,
        source: str,
        prepared: Prepared | None = None,
    ) -> None:
        self.spark = spark
        self.generation = generation
        self.filtering = False
        self.is_paced = False
        self.changed: str | None = None
        self._rate = RateLimit()
        self._interval_ms = 0
        self._loaded = loaded
        self._prepared = prepared
        self._pipeline = loaded.pipeline
        chain = self._pipeline.hybrid_source()
        self.place = chain.index(source)
        self.source = chain.sources[self.place]
        self.enumerator = SwitchState(chain, generation)
        self.plan = require_plan(generation)
        self.histories = {
            part.source: history_of(generation, self.plan, part.source) for part in self.plan.files
        }
        self.folder = self._find_folder()
        listed: dict[str, Sequence[FoundFiles]] = {
            name: history.parts for name, history in self.histories.items()
        }
        if self.folder is not None:
            listed[source] = self.folder.parts
        self.planned: dict[str, PlannedSource | PlannedTopic] = {
            part.name: PlannedSource(
                part,
                listed[part.name],
                generation,
                self._pipeline.event_time,
                self._pipeline.stores,
            )
            for part in chain.sources
            if isinstance(part, FileSource) and part.name in listed
        }
        # One whose turn has not come has no range.
        self._ranges = {
            part.name: found
            for part in self._pipeline.topics
            if (found := find_range(generation, part.name)) is not None
        }
        for name, found in self._ranges.items():
            topic = self._pipeline.topic_source(name)
            self.planned[name] = PlannedTopic(topic, found, generation, self._read_columns(name))

    def writer(self) -> DataStreamWriter:
        """Check everything, prepare the target, and return the writer; the caller starts it.

        Raises:
            InputError: The transform does not fit, or planned files changed.
            SeamError: The start offsets, or what is to be read next, are no longer in the log.
            StateError: It is not this source's turn, or the checkpoint or target is another's, or
                a changed transform does not fit them.
        """
        self.enumerator.require_turn(self.source.name)
        self._rate = self._current_rate()
        rows = load_transform(self._loaded)(self._union())
        self._check_result(rows)
        if self.source.name in self.histories:
            require_order(self.source.name, self.histories[self.source.name].disorder_ms, rows)
        path = target_of(self._loaded, self.generation.name)
        pipeline = self._pipeline
        later = (pipeline.added_columns, pipeline.ignored_columns)
        sink.prepare_table(pipeline.sink, path, rows, self.generation, *later)
        if self.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED and self.place:
            keep_history_files(self.generation, path)
        self.changed = take_over(self.generation, self._transform())
        writer = sink.write_stream(rows, self._pipeline.sink, path, self.generation)
        writer = writer.option("checkpointLocation", str(self.generation.checkpoint))
        if self.source.boundedness is Boundedness.BOUNDED:
            # What is drained has nothing to wait for, but a last batch without data.
            if not self.is_drained():
                self._interval_ms = self._planned_interval_ms()
            self.is_paced = self._interval_ms > 0
            if not self.is_paced:
                return writer.trigger(availableNow=True)
        elif self.folder is not None:
            self._interval_ms = self._folder_interval_ms()
        return writer.trigger(processingTime=f"{self._interval_ms} milliseconds")

    @property
    def pace_ms(self) -> int:
        """Time between the starts of two micro-batches, once :meth:`writer` was called."""
        return self._interval_ms

    def is_to_be_rebuilt(self) -> bool:
        """Whether a live query is no longer the one that would be made now."""
        if self.folder is not None and self._folder_interval_ms() != self._interval_ms:
            return True
        return self.has_passed_seam() or self.has_new_rate()

    def take_in(self, arrived: FoundFiles) -> None:
        """Let the running query read files that were discovered."""
        planned = self.planned[self.source.name]
        assert isinstance(planned, PlannedSource)
        planned.extend(arrived)

    def has_new_rate(self) -> bool:
        """Whether another limit is in force than the one that the query was made with."""
        return self._current_rate() != self._rate

    @property
    def end(self) -> EndPosition | None:
        """The end position of this run's source, once all that is planned is read; if it ends."""
        name = self.source.name
        if name in self._ranges:
            return self._ranges[name].end
        return self.histories[name].end if name in self.histories else None

    def is_drained(self) -> bool:
        """Whether every planned split of this run's source was read and committed."""
        versions = len(self.planned[self.source.name].entries)
        return offset_log.is_drained(self._committed(), versions)

    def has_passed_seam(self) -> bool:
        """Whether the filter that is in the query has nothing left to do."""
        return self.filtering and self._seam.is_passed(self._reached())

    def has_uncounted_seam(self) -> bool:
        """Whether a seam was filtered and is passed, but not counted yet."""
        if isinstance(self.source, FileSource):
            return False
        is_passed = not self.filtering or self.source.name in self._ranges
        return is_passed and self._seam.is_to_count()

    def count_seam(self) -> SeamCount:
        """Count what was in the seam that the stream has passed."""
        read = self._read_columns(self.source.name)
        return self._seam.count(self.spark, self._history(self.place), read)

    def look_up_older(self) -> int:
        """Resolve rows of the seam that are older than the keys kept of history.

        Returns:
            How many of them history holds.
        """
        self._require_unchanged(self.place)
        read = self._read_columns(self.source.name)
        return self._seam.look_up_older(self.spark, self._history(self.place), read)

    def rehearsal(self, live: KafkaSource, shadow: Generation) -> DataFrame:
        """What the live query will do to a topic's records once this source is read, a few at once.

        The keys that its seam filter needs of history are looked up, and stay for it.

        Args:
            live: The next source.
            shadow: Takes what a query leaves behind, such as bad records.
        """
        planned, seam = self.plan.topic_of(live.name), self._expected_seam(live)
        raw = stream_topics(self.spark, live, planned.expected_start.offsets(), 1)
        rows = parse_values(raw, live, self._read_columns(live.name), shadow)
        return rows if seam.is_passed({}) else self._without_held(rows, seam, self.place + 1)

    def keep_seam_keys(self, live: KafkaSource) -> None:
        """Look up the keys that the seam filter will need of history, once this source is read."""
        seam = self._expected_seam(live)
        if seam.needs_history():
            self._require_unchanged(self.place + 1)
            seam.keep_keys(self._history(self.place + 1))

    def prepare(self, live: KafkaSource) -> Prepared:
        """Make the rows of a topic that is followed next, as they will be if all is as planned."""
        starts = self.plan.topic_of(live.name).expected_start.offsets()
        partitions = with_new_partitions(starts, KafkaLog(live).partitions)
        offsets, _ = self._live_pace(live, partitions)
        seam = self._expected_seam(live)
        return self._followed(live, self.place + 1, partitions, offsets, seam)

    def _expected_seam(self, live: KafkaSource) -> Seam:
        assert self.end is not None
        return Seam(
            self._pipeline,
            live,
            self.generation,
            ends=[*self.enumerator.ends_before(self.source.name), self.end],
            start=self.plan.topic_of(live.name).expected_start,
            seam_end=seam_end_after(self.generation, self.plan, self.source.name),
        )

    def _union(self) -> DataFrame:
        columns = self.plan.columns
        added = self._pipeline.added_columns
        parts = [
            with_added(self._place(place, columns), added).select(*columns.names, *added)
            for place in range(len(self._pipeline.sources))
        ]
        return reduce(DataFrame.unionByName, parts)

    def _place(self, place: int, columns: pa.Schema) -> DataFrame:
        source = self._pipeline.sources[place]
        if place > self.place:
            # Better now than when its turn comes, hours later.
            self._check_select(source)
            return self._placeholder(columns)
        if isinstance(source, FileSource):
            planned = self.planned[source.name]
            assert isinstance(planned, PlannedSource)
            # What was read is not read again: its files may go.
            if place == self.place:
                done = offset_log.position_in_plan(self._committed(), planned.entries)
                planned.require_unchanged(done)
            planned.prepare()
            return planned.stream(self.spark)
        if source.boundedness is Boundedness.BOUNDED:
            return self._ranged(source, place)
        return self._live(source, place)

    def _ranged(self, source: KafkaSource, place: int) -> DataFrame:
        require_range(self.generation, source.name)
        planned = self.planned[source.name]
        assert isinstance(planned, PlannedTopic)
        planned.prepare()
        if place < self.place:
            return planned.drained(self.spark)
        require_same_topics(self.plan.topic_of(source.name), KafkaLog(source))
        entries_done = offset_log.position_in_plan(self._committed(), planned.entries)
        planned.require_unchanged(entries_done)
        self.filtering = not self._seam.is_passed({})
        rows = planned.stream(self.spark)
        return self._without_held(rows, self._seam, place) if self.filtering else rows

    def _without_held(self, rows: DataFrame, seam: Seam, place: int) -> DataFrame:
        """Rows of the topic in a place without those of the seam that history has delivered."""
        if seam.needs_history():
            self._require_unchanged(place)
        return seam.filter(self._history(place)).apply(rows)

    def _find_folder(self) -> GrowingFolder | None:
        """What was found in the folder that this run follows, if it follows one."""
        if self.plan.folder is None or self.plan.folder.source != self.source.name:
            return None
        return GrowingFolder(PipelineContext(self._loaded, self.generation))

    def _planned_interval_ms(self) -> int:
        if self._rate == RateLimit():
            return 0
        return interval_ms(self._rate, self.planned[self.source.name].largest)

    def _folder_interval_ms(self) -> int:
        return max(self._planned_interval_ms(), _LOOK_MS)

    def _check_select(self, source: FileSource | KafkaSource) -> None:
        if not source.select:
            return
        part: TopicPlan | FoundFiles
        folder = self.plan.folder
        if isinstance(source, KafkaSource):
            part = self.plan.topic_of(source.name)
        elif folder is not None and folder.source == source.name:
            part = folder
        else:
            part = self.plan.files_of(source.name)
        nothing = self.spark.createDataFrame([], ddl(parse_schema(part.read)))
        select_columns(nothing, source.selection, parse_schema(part.columns))

    def _placeholder(self, columns: pa.Schema) -> DataFrame:
        # Only a glob that matches nothing can be swapped for the real source later: Spark
        # rebuilds the last batch at a restart, and checks the paths of a plain folder.
        nowhere = f"{self.generation.root}/nothing/*"
        return self.spark.readStream.schema(ddl(columns)).parquet(nowhere)

    def _live(self, source: KafkaSource, place: int) -> DataFrame:
        start = self.enumerator.require_start(source.name)
        log = KafkaLog(source)
        require_same_topics(self.plan.topic_of(source.name), log)
        self._check_start(log, place, start)
        partitions = with_new_partitions(start.offsets(), log.partitions)
        offsets, self._interval_ms = self._live_pace(source, partitions)
        self.filtering = not self._seam.is_passed(self._reached())
        seam = self._seam if self.filtering else None
        return self._followed(source, place, partitions, offsets, seam).rows

    def _followed(
        self,
        source: KafkaSource,
        place: int,
        partitions: Offsets,
        offsets: int,
        seam: Seam | None,
    ) -> Prepared:
        """Rows of a topic from some offsets on; those that were prepared, if they are the same.

        Args:
            source: The topic's source.
            place: Its place in the union.
            partitions: Start offset of each partition.
            offsets: Of one micro-batch.
            seam: Whose rows to filter; None if it is passed.
        """
        if seam is not None and seam.is_passed({}):
            seam = None
        made_of = (source, partitions, offsets, seam and seam.made_of)
        if self._prepared is not None and self._prepared.made_of == made_of:
            return self._prepared
        raw = stream_topics(self.spark, source, partitions, offsets)
        rows = parse_values(raw, source, self._read_columns(source.name), self.generation)
        if seam is not None:
            rows = self._without_held(rows, seam, place)
        return Prepared(made_of, rows)

    def _live_pace(self, source: KafkaSource, partitions: Offsets) -> tuple[int, int]:
        """Offsets of one micro-batch, and milliseconds between two."""
        return live_pace(
            rate_of(self.generation, source.name, source.rate),
            span_ms(source.trigger_interval),
            source.max_offsets_per_batch,
            len(partitions),
        )

    def _check_start(self, log: KafkaLog, place: int, start: StartPosition) -> None:
        fixed = offset_log.initial_kafka_offsets(self.generation.checkpoint, place)
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
        check_not_deleted(self._reached(), log.log_start())

    @cached_property
    def _seam(self) -> Seam:
        """The seam; what it is made of was decided for good before the run was started."""
        source = self.source
        assert isinstance(source, KafkaSource)
        ends = self.enumerator.ends_before(source.name)
        seam_end = seam_end_after(self.generation, self.plan, ends[-1].source) if ends else {}
        if source.name in self._ranges:
            limits = self._ranges[source.name].ends
            seam_end = {at: min(end, limits.get(at, end)) for at, end in seam_end.items()}
        return Seam(
            self._pipeline,
            source,
            self.generation,
            ends=ends,
            start=self.enumerator.require_start(source.name),
            seam_end=seam_end,
        )

    def _require_unchanged(self, place: int) -> None:
        for source in self._pipeline.sources[:place]:
            self.planned[source.name].require_unchanged()

    def _history(self, place: int) -> DataFrame:
        """The bounded sources before a place, as one batch."""
        columns = self.plan.columns.names
        planned = (self.planned[source.name] for source in self._pipeline.sources[:place])
        batches = [source.batch(self.spark).select(*columns) for source in planned]
        return reduce(DataFrame.unionByName, batches)

    def _read_columns(self, source: str) -> dict[str, str]:
        read = self.plan.topic_of(source).read
        return {**read, **self._pipeline.topic_source(source).added_types}

    def _current_rate(self) -> RateLimit:
        return rate_of(self.generation, self.source.name, self.source.rate)

    def _committed(self) -> Any:
        return offset_log.committed_offset(self.generation.checkpoint, self.place)

    def _reached(self) -> Offsets:
        return offset_log.reached(self.generation.checkpoint, self.place)

    def _transform(self) -> Transform:
        """The transform by itself: what it makes of a stream of the plan's columns."""
        function = load_transform(self._loaded)
        columns = {**self.plan.columns_by_name, **types_of(self._pipeline.added_columns)}
        shape = Shape(function(self._placeholder(parse_schema(columns))))
        return Transform(
            name=self._pipeline.transform,
            first_batch=first_batch(self.generation),
            reached=self._reached_in_words(),
            code=digest_of_code(function),
            plan=digest("\n".join(shape.lines)),
            operators=shape.operators,
            spark=self.spark.version,
        )

    def _reached_in_words(self) -> str:
        name = self.source.name
        if name not in self.planned:
            reached = sorted(self._reached().items())
            offsets = [f"{at} up to offset {end}" for at, end in reached[:_SHOWN]]
            more = [f"{len(reached) - _SHOWN} partitions more"] if len(reached) > _SHOWN else []
            return "; ".join([*offsets, *more]) or f"all before `{name}`"
        planned = self.planned[name]
        entries = offset_log.position_in_plan(self._committed(), planned.entries)
        highest = planned.reached(entries)[2]
        return f"`{name}` up to event time {iso(highest)}" if highest else f"all before `{name}`"

    def _check_result(self, rows: object) -> None:
        name = self._pipeline.transform
        if not isinstance(rows, DataFrame):
            message = f"`transform: {name}` returned a {type(rows).__name__}, not a DataFrame."
            raise InputError(message, "It must return the DataFrame to be written.")
        if not rows.isStreaming:
            message = f"`transform: {name}` returned a DataFrame that does not come from its input."
            raise InputError(message, "It must return the rows of its argument, transformed.")
