"""The seam of a live run: which filter it needs, when it is passed, and what was in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sources.common.positions import EndPosition, Offsets, StartPosition, TopicPartition
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.config.pipeline import Pipeline
from sources.kafka.seam import seam_rule
from sources.ledger import SeamCount, count_name
from spark_jobs.query.kafka_stream import PARTITION, TOPIC, read_topics
from spark_jobs.query.parse_records import parse_values
from spark_jobs.query.seam_filter import (
    KEYS,
    EventTimeFilter,
    KeyFilter,
    SeamFilter,
    SequenceFilter,
    SnapshotFilter,
)


class Seam:
    """The seam between history and one topic source.

    Args:
        pipeline: The declaration.
        source: The topic's source.
        generation: Where keys and counts are kept.
        ends: End positions of all sources before it, in order.
        start: Where the topic starts.
        seam_end: First offset beyond the seam.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: KafkaSource,
        generation: Generation,
        *,
        ends: Sequence[EndPosition],
        start: StartPosition,
        seam_end: Offsets,
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._generation = generation
        self._ends = ends
        self._start = start
        self._seam_end = seam_end
        self.rule = seam_rule(pipeline, ends, start, seam_end)

    @property
    def made_of(self) -> tuple[object, ...]:
        """What its filter is made of."""
        return (self.rule, self._folder, list(self._ends), self._seam_end)

    @property
    def _folder(self) -> Path:
        """Where its keys are kept; a history that has grown since has others."""
        splits = sum(end.splits for end in self._ends)
        name = f"{splits}-splits-from-{self._keys_from_ms}"
        return self._generation.path(f"seam/{self._source.name}/{name}")

    @property
    def _keys_from_ms(self) -> int:
        """Event time from which on the keys of history are kept."""
        times = [self._ends[-1].complete_through_ms]
        if self._start.time_ms is not None:
            times.append(self._start.time_ms)
        return min(times) - self._pipeline.lateness_ms

    def is_passed(self, reached: Mapping[TopicPartition, int]) -> bool:
        """Whether a stream that has read up to these offsets needs its filter no more."""
        if self.rule == "sequence":
            return False
        if self.rule in ("none", "off", "replay"):
            return True
        # A partition that appeared after the hand-over has nothing that history could hold.
        starts = self._start.offsets()
        return all(
            reached.get(at, starts[at]) >= end
            for at, end in self._seam_end.items()
            if at in starts and starts[at] < end
        )

    def is_to_count(self) -> bool:
        """Whether rows of it were removed, and nobody has counted them."""
        name = count_name(self._source.name)
        is_filtered = self.rule in ("key", "event_time")
        return is_filtered and self._generation.read(name, SeamCount) is None

    def needs_history(self) -> bool:
        """Whether the files have to be read for the filter: its keys are not kept yet."""
        return self.rule == "key" and not (self._folder / KEYS).exists()

    def keep_keys(self, history: DataFrame) -> None:
        """Look up the keys of history that the filter compares.

        Args:
            history: All bounded sources, as one batch.
        """
        self._key_filter(history).kept_keys()

    def filter(self, history: DataFrame) -> SeamFilter:
        """The filter that the rule asks for.

        Args:
            history: All bounded sources, as one batch.
        """
        pipeline = self._pipeline
        end = self._ends[-1]
        if self.rule == "sequence" and end.snapshot is not None:
            columns = {part: name for name, part in self._source.envelope_columns.items()}
            return SnapshotFilter(columns, end.snapshot)
        if self.rule == "sequence":
            assert pipeline.sequence is not None  # the declaration refuses it
            assert end.sequence is not None
            return SequenceFilter(pipeline.sequence, end.sequence)
        if self.rule == "event_time":
            end_ms = max(each.event_time_ms for each in self._ends)
            return EventTimeFilter(pipeline.event_time, end_ms, self._seam_end)
        return self._key_filter(history)

    def look_up_older(
        self, spark: SparkSession, history: DataFrame, columns: Mapping[str, str]
    ) -> int:
        """Resolve rows of the seam that are older than the keys kept of history.

        Returns:
            How many of them history holds.
        """
        rows = self._rows(spark, columns)
        return 0 if rows is None else self._key_filter(history).look_up_older(rows)

    def count(
        self, spark: SparkSession, history: DataFrame, columns: Mapping[str, str]
    ) -> SeamCount:
        """Count what was in the seam and what of it was removed, and write it down."""
        rows = self._rows(spark, columns)
        read = {} if rows is None else _by_partition(rows)
        kept = {} if rows is None else _by_partition(self.filter(history).apply(rows))
        found = SeamCount(
            source=self._source.name,
            rows=read,
            removed={at: rows - kept.get(at, 0) for at, rows in read.items()},
        )
        return self._generation.put_if_absent(count_name(self._source.name), found)

    def _rows(self, spark: SparkSession, columns: Mapping[str, str]) -> DataFrame | None:
        raw = read_topics(spark, self._source, self._start.offsets(), self._seam_end)
        if raw is None:
            return None
        return parse_values(raw, self._source, columns, self._generation)

    def _key_filter(self, history: DataFrame) -> KeyFilter:
        return KeyFilter(
            self._folder,
            history,
            self._pipeline.key,
            self._pipeline.event_time,
            keys_from_ms=self._keys_from_ms,
            ends=self._seam_end,
        )


def _by_partition(rows: DataFrame) -> Offsets:
    counted = rows.groupBy(TOPIC, PARTITION).count().collect()
    return {TopicPartition(row[0], row[1]): row[2] for row in counted}
