"""Look-up of start offsets: at a time, after held offsets, at log start or end; and their gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sources.common.positions import (
    Evidence,
    Gap,
    HeldOffsets,
    Offsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.common.times import iso
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.hybrid import SourceSwitchContext
from sources.kafka.start.gaps import GapFinder
from sources.kafka.start.log_checks import check_in_log, written_offsets
from sources.kafka.start.offset_gaps import before_log_start, holes, in_holes


@dataclass(frozen=True)
class Known:
    """What declaration and plan say about a hand-over.

    Attributes:
        listed: Log end of each partition when history was listed; empty if no files were. A start
            by time is never beyond it, because a record that was appended later can't be in the
            files.
        is_declared: Whether people declared the time up to which history is complete, so that it
            was not computed from the highest event time of its rows.
        expected: Start position that the plan expected; None while it is being planned.
    """

    listed: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_declared: bool = False
    expected: StartPosition | None = None


class StartLookUp:
    """Decides the start offsets of a Kafka source; one method for each kind of declared start.

    The Kafka log is asked in an order in which no record can be missed. Every method returns a
    position whose ``gaps`` list what would be missing, and may raise ``UnavailableError`` if the
    broker does not answer, and ``InputError`` if it refuses.

    Args:
        source: Declaration of the source.
        context: End position of the source before, if there is one, and look-ups on the topics.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.
        now_ms: Time now, in Unix milliseconds.
        known: What declaration and plan say about the hand-over.

    Attributes:
        now_ms: Time now, in Unix milliseconds.
    """

    def __init__(
        self,
        source: KafkaSource,
        context: SourceSwitchContext,
        lateness_ms: int,
        now_ms: int,
        known: Known,
    ) -> None:
        self._source = source
        self._log = context.log
        self._previous = context.previous
        self._known = known
        self._listed_topics = {at.topic for at in known.listed}
        self._gaps = GapFinder(
            context.log, context.previous, lateness_ms, now_ms, is_declared=known.is_declared
        )
        self.now_ms = now_ms

    def at_time(self, time_ms: int, evidence: Evidence) -> StartPosition:
        """Return the start at each partition's first record whose timestamp is at or after a time.

        A partition without such a record starts at its log end as of before the look-up, so that a
        record appended meanwhile is read (as in Flink's TimestampOffsetsInitializer). After
        history, no partition starts beyond its log end when history was listed: later records are
        in no file, however old their timestamps. One whose log starts later starts there: what is
        missing before it is among the position's gaps, which the caller accepts or refuses.

        Args:
            time_ms: The time, in Unix milliseconds.
            evidence: What the time was decided by; recorded in the position.

        Raises:
            SeamError: The time is in the future.
            InputError: The broker refuses a look-up.
            UnavailableError: The broker does not answer.
        """
        if time_ms > self.now_ms:
            name = self._source.name
            message = (
                f"Source `{name}` would start at {iso(time_ms)}, in the future: it is now "
                f"{iso(self.now_ms)}."
            )
            declared = self._source.start != "previous"
            raise SeamError(
                message,
                self._earlier,
                source=name,
                field="start" if declared else "complete_through",
                value=iso(time_ms),
            )
        ends = self._log.log_end()
        answers = self._log.offsets_for_time(time_ms)
        starts = self._log.log_start()
        unanswered = self._gaps.unanswered(answers, starts, time_ms)
        partitions: dict[TopicPartition, PartitionStart] = {}
        gaps: list[Gap] = []
        for partition, offset in answers.items():
            start, reason = offset or 0, f"first record at or after {iso(time_ms)}"
            if partition in unanswered:
                start, reason = starts[partition], f"log start: no answer for {iso(time_ms)}"
            elif offset is None:
                start = ends[partition]
                reason = f"no record at or after {iso(time_ms)}: end offset read before the look-up"
            listed = self._known.listed.get(partition, self._unlisted(partition.topic))
            if self._previous is not None and listed is not None and listed < start:
                start = listed
                reason = "log end when history was listed: nothing later is in the files"
                why = f"nothing from offset {listed} on is in the files"
                gaps += before_log_start(partition, listed, starts[partition], why)
            # Retention may have passed the offset since it was found.
            start = max(start, starts[partition])
            partitions[partition] = PartitionStart(
                start=start,
                log_start=starts[partition],
                log_end=max(ends[partition], start),
                reason=reason,
            )
        gaps += self._gaps.deleted(time_ms, starts, ends)
        if self._previous is not None and time_ms > self._previous.complete_through_ms:
            gaps += self._gaps.skipped(partitions)
        gaps = [*self._gaps.behind_end(partitions), *gaps]
        return self._position(partitions, evidence, time_ms, gaps)

    def after_offsets(self, held: HeldOffsets) -> StartPosition:
        """Return the start after each partition's last record in history.

        A partition of which history holds nothing starts at its log start. Gaps are where the log
        starts later than history ends, and records that history lacks in between.

        Args:
            held: Exact offsets that the files of history, or the source before, hold.

        Raises:
            SeamError: History holds records of a partition that the source does not read, or ends
                beyond the log end.
        """
        self._require_own(held)
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions: dict[TopicPartition, PartitionStart] = {}
        gaps: list[Gap] = []
        for partition in self._log.partitions:
            following = held.next.get(partition)
            reason = "history holds none of its records: log start"
            if following is not None:
                reason = f"history holds its records up to offset {following - 1}"
            gaps += before_log_start(partition, following or 0, starts[partition], reason)
            partitions[partition] = PartitionStart(
                start=max(following or 0, starts[partition]),
                log_start=starts[partition],
                log_end=ends[partition],
                reason=reason,
            )
        gaps += holes(self._log, held, starts, ends, self._known.expected)
        position = self._position(partitions, "offsets", None, gaps)
        check_in_log(position, starts, ends)
        return position

    def not_after(self, held: HeldOffsets, position: StartPosition) -> StartPosition:
        """Lower the starts of a position to the offsets that file names suggest, if lower.

        Offsets in file names can't raise a start, as a neighbouring file may not have arrived; they
        lower it for a partition that lags. Where the log starts after such an offset, the start is
        the log start, and the position gets a gap.

        Args:
            held: Offsets that file names suggest, without their ends.
            position: Start position by time.

        Raises:
            SeamError: The files hold records of a partition that the source does not read.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        self._require_own(held)
        ends, starts = self._log.log_end(), self._log.log_start()
        missing = in_holes(self._log, held, starts, ends)
        partitions, gaps = {}, list(position.gaps)
        for partition, part in position.partitions.items():
            suggested = missing.get(partition, held.next.get(partition, 0))
            if suggested >= part.start:
                partitions[partition] = part
                continue
            reason = f"the files suggest that they end before offset {suggested}"
            gaps += before_log_start(partition, suggested, starts[partition], reason)
            update = {"start": max(suggested, starts[partition]), "reason": reason}
            partitions[partition] = part.model_copy(update=update)
        return position.model_copy(update={"partitions": partitions, "gaps": gaps})

    def at_log_start(self) -> StartPosition:
        """Return the start at each partition's log start, so that all that Kafka has is read.

        Nothing is decided by it yet. After history, records that neither of the two has are listed
        as gaps.

        Raises:
            UnavailableError: The broker does not answer.
        """
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = _parts(starts, starts, ends, "log start")
        gaps = []
        if self._previous is not None:
            gaps = [*self._gaps.behind_end(partitions), *self._gaps.deleted(0, starts, ends)]
        return self._position(partitions, "fixed", None, gaps)

    def at_log_end(self) -> StartPosition:
        """Return the start at the log end of each partition: only later records are read.

        Never with gaps: records before it are skipped on purpose.

        Raises:
            UnavailableError: The broker does not answer.
        """
        ends, starts = self._log.log_end(), self._log.log_start()
        return self._position(_parts(ends, starts, ends, "log end"), "fixed", None, [])

    def at_offsets(
        self, declared: Mapping[str, Mapping[int, int]], evidence: Evidence
    ) -> StartPosition:
        """Return the start at given offsets, after checking that the log holds them.

        Args:
            declared: Offsets by topic name (empty text if there is one topic) and partition number.
            evidence: What the offsets were decided by: the declaration, or the user's factory.

        Raises:
            SeamError: A partition is left out or unknown, or an offset is not in the log.
        """
        offsets = written_offsets(
            declared, self._log.partitions, f"The start offsets of source `{self._source.name}`"
        )
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = _parts(offsets, starts, ends, "declared")
        position = self._position(partitions, evidence, None, [])
        check_in_log(position, starts, ends)
        gaps = self._gaps.left_out_by_offsets(partitions, starts, ends)
        return position.model_copy(update={"gaps": gaps})

    @property
    def distrusted(self) -> str | None:
        """Name of the source before, if its end is implausible and not believed; else None.

        Known once a start was decided.
        """
        return self._gaps.distrusted

    def _unlisted(self, topic: str) -> int | None:
        """Log end, when history was listed, of a partition that did not exist then; else None."""
        is_new = self._source.waits_for_topic or topic in self._listed_topics
        return 0 if is_new else None

    @property
    def _earlier(self) -> str:
        """What to do about a start in the future."""
        name = self._source.name
        if self._previous is None or self._source.start != "previous":
            how = "Return" if self._source.functions else "Declare"
            return f"{how} an earlier time for `start` of source `{name}`."
        return (
            "A single row with a wrong clock moves the end of history, which is the highest event "
            f"time in source `{self._previous.source}`. Declare or correct `complete_through` for "
            "it: the time up to which its files are complete. Or declare `not_after` under the "
            "pipeline's `event_time`: rows after it do not count, and `event_time.outside` says "
            "what happens to them. Then repeat the command."
        )

    def _require_own(self, held: HeldOffsets) -> None:
        """Refuse a history that holds records of partitions that are not read."""
        if foreign := sorted(set(held.next) - set(self._log.partitions)):
            topic, number = foreign[0]
            name = self._source.name
            message = (
                f"The files hold records of {foreign[0]}, which source `{name}` does not read."
            )
            hint = (
                f"Correct `topic` of source `{name}`, or remove `offsets` from the file source: "
                "the start is then decided by time."
            )
            raise SeamError(message, hint, source=name, topic=topic, partition=number)

    def _position(
        self,
        partitions: dict[TopicPartition, PartitionStart],
        evidence: Evidence,
        time_ms: int | None,
        gaps: list[Gap],
    ) -> StartPosition:
        return StartPosition(
            source=self._source.name,
            evidence=evidence,
            time_ms=time_ms,
            partitions=partitions,
            gaps=gaps,
        )


def _parts(
    offsets: Offsets, starts: Offsets, ends: Offsets, reason: str
) -> dict[TopicPartition, PartitionStart]:
    """Return the starts of partitions at some offsets, for one reason."""
    return {
        at: PartitionStart(start=offset, log_start=starts[at], log_end=ends[at], reason=reason)
        for at, offset in offsets.items()
    }
