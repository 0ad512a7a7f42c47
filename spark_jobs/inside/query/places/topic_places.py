"""Places of Kafka topics: start offsets that differ from the checkpoint's, when to build again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sources.common.positions import Offsets
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.rate_limit import RateLimit
from sources.errors import StateError
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.start.log_checks import check_in_log, check_not_deleted, check_not_truncated
from sources.planning.context import PipelineContext
from sources.planning.topics.key_of_changes import ExpectedKey, keep_key
from sources.planning.topics.recreated_topics import refuse_recreated_topics
from sources.planning.topics.topic_plan import require_same_topics
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.query.places.alignments import alignment_of
from spark_jobs.inside.query.places.followed_topic_stream import (
    FollowedTopic,
    Prepared,
    is_small_at_first,
    pace_of,
)
from spark_jobs.inside.query.places.place import DirectStream, PlaceStream, Reached, SourcePlace
from spark_jobs.inside.query.places.read_from_plan import (
    committed_in_plan,
    planned_interval_ms,
    reached_in_plan,
)
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import with_new_partitions
from spark_jobs.inside.readers.topics.parse_records import record_columns
from spark_jobs.inside.readers.topics.planned_topic import PlannedTopic


class ReadRangePlace(SourcePlace):
    """Place of a bounded Kafka source that was read to its end.

    Args:
        context: The pipeline and its state.
        planned: Reader of its planned range of offsets.
    """

    def __init__(self, context: PipelineContext, planned: PlannedTopic) -> None:
        super().__init__(context)
        self._planned = planned

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return a stream without rows, for a range that was read to its end; no task runs for it.

        The query fails with a :class:`RunError` if Spark finds anything left to read.
        """
        self._planned.prepare()
        return PlaceStream(partial(self._planned.drained, spark))


class TopicRangePlace(SourcePlace):
    """Place of a bounded Kafka source that is being read.

    Args:
        context: The pipeline and its state.
        source: The declaration.
        planned: Reader of its planned range of offsets.
        seam: Its seam with history: the offsets in which its rows may repeat history.
        index: Number of its place in the union, from 0.
        rate: Its rate limit.
    """

    def __init__(
        self,
        context: PipelineContext,
        source: KafkaSource,
        planned: PlannedTopic,
        seam: Seam,
        *,
        index: int,
        rate: RateLimit,
    ) -> None:
        super().__init__(context)
        self._source = source
        self._planned = planned
        self._seam = seam
        self._index = index
        self._rate = rate
        self.end = planned.end
        self.seam = seam

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the parsed records of the range, without those that history contains.

        Checks first that the range can still be read from the committed offset on.

        Raises:
            InputError: ``select`` does not fit, or a planned file that the seam filter needs is
                missing or was rewritten.
            SeamError: Kafka has deleted records that are to be read, or a topic was created again.
            StateError: The seam is filtered by log position, and ``sequence`` is not declared.
            UnavailableError: The broker does not answer.
        """
        self._planned.prepare()
        self.require_same_log()
        committed = committed_in_plan(self._context, self._index, self._planned)
        filtering = not self._seam.is_passed({})

        def rows() -> DataFrame:
            parsed = self._planned.stream(spark)
            return self._seam.apply(parsed) if filtering else parsed

        drained = self.is_drained(committed)
        interval = 0 if drained else planned_interval_ms(self._rate, self._planned)
        direct = None
        if not filtering and (parse := self._planned.batch_parser(spark)) is not None:
            direct = DirectStream(partial(self._planned.written, spark, parse), self._planned.left)
        return PlaceStream(rows, interval, filtering, direct=direct)

    def require_same_log(self) -> None:
        """Refuse topics that are not the planned ones any more.

        Raises:
            SeamError: A topic was deleted, perhaps created again, or is in another cluster.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses, or there is no such topic.
        """
        require_same_topics(self._context.plan.topic_of(self._source.name), KafkaLog(self._source))

    def is_drained(self, committed: Any) -> bool:
        """Return whether every planned split of the range was read and committed.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return offset_log.is_drained(committed, len(self._planned.entries))

    def reached(self, committed: Any) -> Reached:
        """Return how many splits of the range were read; rows and event time are None.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return reached_in_plan(self._planned, committed)

    def has_uncounted_seam(self, _committed: Any) -> bool:
        """Return whether the seam's rows have to be counted; call it once the whole range is read.

        The seam is the interval of offsets in which its rows may repeat history.

        Raises:
            StateError: The count of the rows is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        return self._seam.is_to_count()


class FollowedTopicPlace(SourcePlace):
    """Place of a topic that is followed without end; its source is the last of the chain.

    Args:
        context: The pipeline and its state.
        source: The declaration.
        seam: Its seam with history: the offsets in which its rows may repeat history.
        index: Number of its place in the union, from 0.
        rate: Its rate limit.
        prepared: DataFrame of its rows that this driver built while history was still read; None
            if there is none.
    """

    def __init__(
        self,
        context: PipelineContext,
        source: KafkaSource,
        seam: Seam,
        *,
        index: int,
        rate: RateLimit,
        prepared: Prepared | None,
    ) -> None:
        super().__init__(context)
        self._source = source
        self._start = seam.start
        self._seam = seam
        self._index = index
        self._rate = rate
        self._prepared = prepared
        self.seam = seam
        self.starts = seam.start.offsets()

    def stream(self, spark: SparkSession) -> PlaceStream:
        """Return the parsed records from the start offsets on, filtered until the seam is passed.

        On an existing checkpoint Spark reads on from the committed offsets.

        Raises:
            InputError: ``select`` does not fit, or a planned file that the seam filter needs is
                missing or was rewritten.
            SeamError: The start offsets, or records to be read next, are no longer in Kafka.
            StateError: The checkpoint has other start offsets, or the seam is filtered by log
                position and ``sequence`` is not declared.
            UnavailableError: The broker does not answer.
        """
        log, reached = self._same_log()
        self._check_start(log)
        partitions = with_new_partitions(self._start.offsets(), log.partitions)
        if self._context.pipeline.sink.mode == "merge":
            ends = self._context.switch_state.ends_before(self._source.name)
            expected = ExpectedKey.of(self._context.pipeline.sink, self._source, ends)
            keep_key(self._context.generation, self._source, log, self._start.offsets(), expected)
        may_be_small = self.may_begin_small and not reached
        is_first = may_be_small and is_small_at_first(self._source, self._rate, log, partitions)
        offsets, interval = pace_of(self._source, self._rate, partitions, is_first=is_first)
        filtering = not self._seam.is_passed(reached)
        alignment = alignment_of(self._context.generation, self._source)
        topic = FollowedTopic(
            self._context.generation,
            self._source,
            record_columns(self._context.plan, self._source),
            EventTimeCheck(self._context.pipeline.event_time),
            self._context.pipeline.row_rules,
            partitions,
            offsets,
            self._seam if filtering else None,
            alignment,
        )
        rows = partial(topic.rows, spark, self._prepared)
        direct = topic.direct(spark, self._index)
        in_driver = topic.in_driver(spark, self._index)
        return PlaceStream(rows, interval, filtering, is_first, direct, alignment, in_driver)

    def reached(self, committed: Any) -> Reached:
        """Return the first offset not yet read, by partition; its other fields are None.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        return Reached(offsets=offset_log.kafka_offsets(committed))

    def is_outdated(self, stream: PlaceStream, committed: Any) -> bool:
        """Return whether the running query is filtered or limited as it need not be any more.

        It must be built again then: the seam that its stream filters is passed, or the small first
        micro-batch that it was limited to is committed.

        Args:
            stream: The stream in the running query.
            committed: Spark's offset of the source, decoded from JSON; None if never read.
        """
        offsets = offset_log.kafka_offsets(committed)
        is_passed = stream.filtering and self._seam.is_passed(offsets)
        return is_passed or (stream.is_first and bool(offsets))

    def has_uncounted_seam(self, committed: Any) -> bool:
        """Return whether the whole seam was read and committed, but its rows are not counted.

        The seam is the interval of offsets in which live rows may repeat history.

        Args:
            committed: Spark's offset of the source, decoded from JSON; None if never read.

        Raises:
            StateError: The count of the rows is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        is_passed = self._seam.is_passed(offset_log.kafka_offsets(committed))
        return is_passed and self._seam.is_to_count()

    def require_same_log(self) -> None:
        """Refuse topics that are not the same ones any more, or whose log was truncated.

        Raises:
            SeamError: A topic was deleted, perhaps created again, is in another cluster, or its log
                ends before what was read.
            StateError: The state or the checkpoint is damaged.
            UnavailableError: The broker or the state's store does not answer.
            InputError: The broker refuses, or there is no such topic.
        """
        self._same_log()

    def _same_log(self) -> tuple[KafkaLog, Offsets]:
        reached, log = self._reached(), KafkaLog(self._source)
        planned = self._context.plan.topic_of(self._source.name)
        refuse_recreated_topics(self._context.generation, self._source, planned, log, reached)
        check_not_truncated(reached, log.high_watermark())
        return log, reached

    def _reached(self) -> Offsets:
        return offset_log.next_offsets(self._context.generation.checkpoint, self._index)

    def _check_start(self, log: KafkaLog) -> None:
        """Refuse a start that is not in the log, or that the checkpoint contradicts."""
        checkpoint = self._context.generation.checkpoint
        fixed = offset_log.initial_kafka_offsets(checkpoint, self._index)
        if fixed is None:
            check_in_log(self._start, log.log_start(), log.log_end())
            return
        _require_same_start(self._source.name, self._start.offsets(), fixed)
        check_not_deleted(self._reached(), log.log_start())


def _require_same_start(source: str, decided: Offsets, fixed: Mapping[Any, int]) -> None:
    for at, offset in decided.items():
        if fixed.get(at) != offset:
            message = (
                f"Topic `{at.topic}`, partition {at.partition} was decided to start at offset "
                f"{offset}, but the checkpoint started it at {fixed.get(at, 'no offset')}. So the "
                "state and the checkpoint do not belong together: rows may be missing from the "
                "table, or be in it twice. The query was not started."
            )
            hint = (
                "Restore the state folder and its checkpoint from the same moment; or begin a new "
                "generation, which computes the whole table again next to the one that serves: "
                "`hybrid generation new P`."
            )
            raise StateError(
                message, hint, source=source, topic=at.topic, partition=at.partition, offset=offset
            )
