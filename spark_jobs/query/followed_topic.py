"""The rows of a topic that is followed: built when its turn comes, or before, as they will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sources.common.positions import EndPosition, Offsets, span_ms
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.config.rate_limit import RateLimit, live_pace, rate_of
from sources.kafka.client import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.topic_range import seam_end_after
from spark_jobs.query.history import EarlierSources
from spark_jobs.query.seam import Seam
from spark_jobs.readers.kafka_stream import stream_topics, with_new_partitions
from spark_jobs.readers.parse_records import parse_values, record_columns


@dataclass(frozen=True)
class Prepared:
    """Rows of a topic that is followed next, built while history is still read.

    Attributes:
        made_of: Source, start offsets, limit and filter. Where these turn out to be the same, so
            are the rows.
        rows: The rows.
    """

    made_of: tuple[Any, ...]
    rows: DataFrame


@dataclass(frozen=True)
class FollowedTopic:
    """A topic that is followed from some offsets on.

    Attributes:
        generation: Where bad records are staged.
        source: The declaration.
        columns: All columns of a record, before ``select``.
        partitions: Start offset of each partition.
        max_offsets: Offsets of one micro-batch, all partitions together.
        seam: The seam whose rows are filtered; None if it is passed.
    """

    generation: Generation
    source: KafkaSource
    columns: Mapping[str, str]
    partitions: Offsets
    max_offsets: int
    seam: Seam | None

    def rows(self, spark: SparkSession, prepared: Prepared | None = None) -> DataFrame:
        """Return the parsed rows as a stream; the prepared ones, if they are the same."""
        if prepared is not None and prepared.made_of == self._made_of:
            return prepared.rows
        raw = stream_topics(spark, self.source, self.partitions, self.max_offsets)
        rows = parse_values(raw, self.source, self.columns, self.generation)
        return rows if self._filter is None else self._filter.apply(rows)

    def prepare(self, spark: SparkSession) -> Prepared:
        """Build the rows now, for a query that is started later."""
        return Prepared(self._made_of, self.rows(spark))

    @property
    def _filter(self) -> Seam | None:
        return None if self.seam is None or self.seam.is_passed({}) else self.seam

    @property
    def _made_of(self) -> tuple[Any, ...]:
        seam = self._filter
        return (self.source, self.partitions, self.max_offsets, seam and seam.made_of)


def pace_of(source: KafkaSource, rate: RateLimit, partitions: Offsets) -> tuple[int, int]:
    """Return the offsets of one micro-batch, and the milliseconds between two."""
    return live_pace(
        rate, span_ms(source.trigger_interval), source.max_offsets_per_batch, len(partitions)
    )


class ExpectedTopic:
    """The topic that follows the source being read, as it will be if all goes as planned.

    Args:
        context: The pipeline and its state.
        live: The topic's source.
        end: The end position that the source being read will have.
        history: All sources up to and including that one.
    """

    def __init__(
        self,
        context: PipelineContext,
        live: KafkaSource,
        end: EndPosition,
        history: EarlierSources,
    ) -> None:
        self._context = context
        self._live = live
        self._columns = record_columns(context.plan, live)
        self._start = context.plan.topic_of(live.name).expected_start
        self._seam = Seam(
            context,
            live,
            ends=[*context.switch_state.ends_before(end.source), end],
            start=self._start,
            seam_end=seam_end_after(context.generation, context.plan, end.source),
            history=history,
        )

    def rehearsal(self, spark: SparkSession, shadow: Generation) -> DataFrame:
        """Return what the live query will do to the topic's records, one record at a time.

        The keys that its seam filter needs of history are looked up, and stay for it.

        Args:
            spark: The session.
            shadow: Takes what a query leaves behind, such as bad records.
        """
        raw = stream_topics(spark, self._live, self._start.offsets(), 1)
        rows = parse_values(raw, self._live, self._columns, shadow)
        return rows if self._seam.is_passed({}) else self._seam.apply(rows)

    def keep_seam_keys(self, spark: SparkSession) -> None:
        """Look up the keys of history that the seam filter will need, unless they are kept."""
        self._seam.keep_keys(spark)

    def prepare(self, spark: SparkSession) -> Prepared:
        """Build the rows of the topic as they will be if nothing changes until the switch."""
        generation, live = self._context.generation, self._live
        partitions = with_new_partitions(self._start.offsets(), KafkaLog(live).partitions)
        rate = rate_of(generation, live.name, live.rate)
        offsets, _ = pace_of(live, rate, partitions)
        topic = FollowedTopic(generation, live, self._columns, partitions, offsets, self._seam)
        return topic.prepare(spark)
