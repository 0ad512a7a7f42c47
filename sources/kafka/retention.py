"""How long the records to be read after history are safe from Kafka's retention.

Kafka deletes a segment once its newest record is older than ``retention.ms``, or the partition is
larger than ``retention.bytes``; so a record lives at least as long as computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sources.common.positions import Offsets, Part, TopicPartition, now_ms, span_ms
from sources.config.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.client import KafkaLog

Settings = Mapping[str, Mapping[str, str]]
_SHOWN = 10


class Headroom(Part):
    """How long the first record that is needed of one partition is safe.

    Attributes:
        topic, partition, offset: The record.
        left_ms: Time until Kafka may delete it; negative once it may.
    """

    topic: str
    partition: int
    offset: int
    left_ms: int

    def __str__(self) -> str:
        return (
            f"topic `{self.topic}`, partition {self.partition}: Kafka may delete offset "
            f"{self.offset}, the first that is needed, in {self.left_ms / 1000:,.0f} s"
        )


def retention_ms(settings: Mapping[str, str]) -> int | None:
    """How long a topic keeps records, or None for ever."""
    kept = int(settings["retention.ms"])
    return None if kept < 0 or "delete" not in settings["cleanup.policy"] else kept


class RetentionWatch:
    """Follows retention against a run's progress.

    Args:
        source: The topic's source.
        log: Its look-ups.
        needed: First offset of each partition that has to be there once history is done.
        now_ms: The clock.
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
            at: offset for at, offset in needed.items() if offset < self._ends.get(at, 0)
        }
        self._dates: dict[TopicPartition, int] = {}

    def look(self) -> list[Headroom]:
        """Partitions that Kafka may delete from, the most urgent first.

        Raises:
            SeamError: A needed record is gone, and that is not accepted.
        """
        settings = self._log.settings()
        starts = self._log.log_start()
        for at, needed in self._needed.items():
            if at not in starts:
                message = f"Topic `{at.topic}` has no partition {at.partition} any more."
                raise SeamError(message, "The topic was made anew: start over.")
            if starts[at] > needed and self._source.on_gap == "fail":
                message = (
                    f"Topic `{at.topic}`, partition {at.partition}: Kafka deleted offsets {needed} "
                    f"to {starts[at] - 1}, which are needed once history is done."
                )
                raise SeamError(message, "Extend history, or write `on_gap: accept`.")
        self._date(settings)
        now_ms = self._now_ms()
        found = []
        for at, needed in self._needed.items():
            kept = retention_ms(settings[at.topic])
            left = []
            if kept is not None and at in self._dates:
                left.append(self._dates[at] + kept - now_ms)
            # Retention by size follows what is produced: go by how fast the log start moves.
            moved = starts[at] - self._begun_at[at]
            if moved > 0:
                left.append((needed - starts[at]) * (now_ms - self._begun_ms) // moved)
            if left:
                room = Headroom(
                    topic=at.topic, partition=at.partition, offset=needed, left_ms=min(left)
                )
                found.append(room)
        return sorted(found, key=lambda room: room.left_ms)[:_SHOWN]

    def _date(self, settings: Settings) -> None:
        """Read the timestamps of those first records that Kafka deletes by time."""
        undated = {
            at: offset
            for at, offset in self._needed.items()
            if at not in self._dates and retention_ms(settings[at.topic]) is not None
        }
        for record in self._log.read(undated, 1, self._ends):
            self._dates[record.at] = record.timestamp_ms

    def require(self, progress: str) -> Headroom | None:
        """Stop history before Kafka deletes what comes after it.

        Args:
            progress: How far history is, in words.

        Returns:
            The most urgent partition, if any.

        Raises:
            SeamError: One has less than the declared headroom left.
        """
        found = self.look()
        if not found:
            return None
        limit_ms = span_ms(self._source.headroom)
        if found[0].left_ms < limit_ms and self._source.on_gap == "fail":
            message = f"Stopped before records are lost, {progress}: {found[0]}."
            hint = (
                "Raise the topic's `retention.ms` (or `retention.bytes`) and run again: it goes on "
                f"where it stopped. The limit is `headroom` of source `{self._source.name}`, "
                f"{limit_ms / 1000:,.0f} s."
            )
            raise SeamError(message, hint)
        return found[0]
