"""Retention headroom: how long the records to be read after history are safe from deletion.

Kafka deletes a segment once its newest record is older than ``retention.ms``, or the partition is
larger than ``retention.bytes``; so a record lives at least as long as computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sources.common.counting import counted
from sources.common.durations import in_full, span_ms
from sources.common.positions import Offsets, TopicPartition
from sources.common.state_document import Part
from sources.common.times import now_ms
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client.kafka_errors import NEW_GENERATION
from sources.kafka.client.kafka_log import KafkaLog

Settings = Mapping[str, Mapping[str, str]]
"""Configuration of topics, such as ``retention.ms``, by the topic's name."""
_SHOWN = 10


class Headroom(Part):
    """Retention headroom of one partition: for how long its first needed record stays in Kafka.

    Attributes:
        topic, partition, offset: Where that record is.
        left_ms: Milliseconds until Kafka may delete it; 0 or negative if it may already.
    """

    topic: str
    partition: int
    offset: int
    left_ms: int

    def __str__(self) -> str:
        when = f"in {in_full(self.left_ms)}"
        if self.left_ms <= 0:
            when = f"at any moment: its retention ended {in_full(-self.left_ms)} ago"
        return (
            f"topic `{self.topic}`, partition {self.partition}: Kafka may delete offset "
            f"{self.offset}, the first one that is needed, {when}"
        )


def retention_ms(settings: Mapping[str, str]) -> int | None:
    """Return for how many milliseconds a topic keeps records before Kafka may delete them.

    None if records are not deleted by time: retention without limit, or compaction only.

    Args:
        settings: Configuration of the topic: ``retention.ms`` and ``cleanup.policy``.

    Raises:
        KeyError: One of the two settings is missing.
    """
    kept = int(settings["retention.ms"])
    return None if kept < 0 or "delete" not in settings["cleanup.policy"] else kept


class RetentionWatch:
    """Watch over records that must stay in Kafka's log until history is read.

    While files are read, Kafka continues to delete old records of the topic that follows; this
    computes for how long the first needed ones stay. The constructor asks the broker for log start
    and end.

    Args:
        source: Declaration of the source.
        log: Look-ups on its topics.
        needed: First offset of each partition that has to be there once history is read; a
            partition whose needed record is not appended yet is not watched.
        now_ms: Clock, returning Unix milliseconds.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: The broker refuses.
    """

    def __init__(
        self,
        source: KafkaSource,
        log: KafkaLog,
        needed: Offsets,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._source = source
        self._log = log
        self._now_ms = now_ms
        self._begun_ms = now_ms()
        self._begun_at = log.log_start()
        self._ends = log.log_end()
        # What is not there yet can't be deleted.
        self._needed = {
            partition: offset
            for partition, offset in needed.items()
            if offset < self._ends.get(partition, 0)
        }
        self._dates: dict[TopicPartition, int] = {}

    def look(self) -> list[Headroom]:
        """Ask Kafka for the headroom of partitions that it may delete from, most urgent first.

        At most ten partitions; an empty list if Kafka deletes nothing that is needed.

        Raises:
            SeamError: A needed record is deleted, and ``on_gap`` is ``fail``; or a partition does
                not exist any more.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        settings = self._log.settings()
        starts = self._log.log_start()
        for partition, needed in self._needed.items():
            if partition not in starts:
                message = (
                    f"Topic `{partition.topic}` has no partition {partition.partition} any more, "
                    f"whose offset {needed} is needed after history: the topic was deleted or "
                    "created again, or `bootstrap_servers` leads to another cluster."
                )
                hint = f"Correct `bootstrap_servers`; for a new topic, {NEW_GENERATION}"
                raise self._error(message, hint, partition, needed)
            if starts[partition] > needed and self._source.on_gap == "fail":
                message = (
                    f"Topic `{partition.topic}`, partition {partition.partition}: Kafka deleted "
                    f"{counted(starts[partition] - needed, 'offset')} from {needed} on, needed "
                    "after history; rows would be missing from the table."
                )
                hint = (
                    "Let the files of history cover these records, and begin a new generation: "
                    "`hybrid generation new P`. Or declare `on_gap: accept` for source "
                    f"`{self._source.name}` to continue without them."
                )
                raise self._error(message, hint, partition, needed)
        # Of the others, gaps are accepted.
        there = {at: needed for at, needed in self._needed.items() if needed >= starts[at]}
        self._date(settings, there)
        now_ms = self._now_ms()
        headroom = []
        for partition, needed in there.items():
            kept = retention_ms(settings[partition.topic])
            left = []
            if kept is not None and partition in self._dates:
                left.append(self._dates[partition] + kept - now_ms)
            # Retention by size depends on what is produced: use the speed of the log start.
            moved = starts[partition] - self._begun_at[partition]
            if moved > 0:
                left.append((needed - starts[partition]) * (now_ms - self._begun_ms) // moved)
            if left:
                topic, number = partition
                part = Headroom(topic=topic, partition=number, offset=needed, left_ms=min(left))
                headroom.append(part)
        return sorted(headroom, key=lambda part: part.left_ms)[:_SHOWN]

    def _error(self, message: str, hint: str, partition: TopicPartition, offset: int) -> SeamError:
        name = self._source.name
        topic, number = partition
        return SeamError(message, hint, source=name, topic=topic, partition=number, offset=offset)

    def _date(self, settings: Settings, needed: Offsets) -> None:
        """Read the timestamps of the first needed records where Kafka deletes by time."""
        undated = {
            partition: offset
            for partition, offset in needed.items()
            if partition not in self._dates and retention_ms(settings[partition.topic]) is not None
        }
        for record in self._log.read(undated, 1, self._ends):
            # For a record without a timestamp, Kafka takes the time of its file, which it hides.
            if record.timestamp_ms >= 0:
                self._dates[record.partition] = record.timestamp_ms

    def require(self, progress: str) -> Headroom | None:
        """Refuse to continue with history if Kafka may soon delete the records that follow it.

        Args:
            progress: How far the run is, in words, for the message.

        Returns:
            The headroom of the most urgent partition; None if Kafka deletes nothing that is needed.

        Raises:
            SeamError: With ``on_gap: fail``, a partition has less than the declared ``headroom``
                left, or a needed record is deleted; or a partition does not exist any more.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        headroom = self.look()
        if not headroom:
            return None
        limit_ms = span_ms(self._source.headroom)
        if headroom[0].left_ms < limit_ms and self._source.on_gap == "fail":
            message = f"Stopped before records are lost, {progress}: {headroom[0]}."
            hint = (
                "Raise the topic's `retention.ms` (or `retention.bytes`), then run the pipeline "
                "again, which resumes after the last micro-batch: `hybrid run P`. The limit is "
                f"`headroom` of source `{self._source.name}`, {in_full(limit_ms)}."
            )
            first = headroom[0]
            partition = TopicPartition(first.topic, first.partition)
            raise self._error(message, hint, partition, first.offset)
        return headroom[0]
