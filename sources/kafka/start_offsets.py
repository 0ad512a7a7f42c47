"""From the end of history to Kafka start offsets; and everything about gaps in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sources.common.positions import (
    EndPosition,
    Evidence,
    Gap,
    HeldOffsets,
    Offsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
    flatten,
    iso,
    now_ms,
    span_ms,
    to_ms,
)
from sources.common.topic_log import Log
from sources.config.kafka_options import (
    StartAgo,
    StartAtOffsets,
    StartAtTimestamp,
    StartByFactory,
)
from sources.config.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.hybrid import SourceFactory, SourceSwitchContext

UserFactory = Callable[[SourceSwitchContext], Any]
_WAY_OUT = (
    "Let history cover it (`on_gap: extend` reads files that arrived meanwhile), or write "
    "`on_gap: accept` to go on without these records."
)


class GapError(SeamError):
    """Records may be in neither history nor the log.

    Attributes:
        gaps: Where, one for each partition at least.
    """

    def __init__(self, gaps: Sequence[Gap]) -> None:
        first = gaps[0]
        more = f" (and {len(gaps) - 1} more of this kind)" if len(gaps) > 1 else ""
        super().__init__(f"Topic `{first.topic}`, partition {first.partition}: {first.why}{more}.",
                         _WAY_OUT)  # fmt: skip
        self.gaps = list(gaps)


def factory_for(
    source: KafkaSource,
    lateness_ms: int,
    load: Callable[[str], UserFactory],
    now_ms: Callable[[], int] = now_ms,
    listed: Mapping[TopicPartition, int] | None = None,
) -> SourceFactory:
    """The hand-over that a source declares under ``start``.

    Args:
        source: The declaration.
        lateness_ms: How far behind the newest record one may still be appended.
        load: Imports the user's factory, ``module:function``.
        now_ms: The clock.
        listed: Log ends when history was listed. A start by time is never beyond: whatever came
            later can't be in the files, however late it is.

    The factory raises:
        GapError: There is a gap, and the source does not accept it.
        SeamError: The time lies in the future, an offset is not in the log, or the user's
            factory returned nonsense.
    """

    def decide(context: SourceSwitchContext) -> StartPosition:
        look = _LookUp(source, context, lateness_ms, now_ms(), listed or {})
        position = _decide(source, context, look, load)
        if position.gaps and source.on_gap != "accept":
            raise GapError(position.gaps)
        return position

    return decide


def _decide(
    source: KafkaSource,
    context: SourceSwitchContext,
    look: _LookUp,
    load: Callable[[str], UserFactory],
) -> StartPosition:
    start = source.start
    if isinstance(start, StartAtOffsets):
        return look.at_offsets(start.offsets, "fixed")
    if isinstance(start, StartAtTimestamp):
        return look.at_time(to_ms(start.timestamp), "fixed")
    if isinstance(start, StartAgo):
        return look.at_time(look.now_ms - span_ms(start.ago), "fixed")
    if isinstance(start, StartByFactory):
        return _from_user(look, start.factory, _call(start.factory, load, context))
    if start == "earliest":
        return look.at_log_start()
    if start == "latest":
        return look.at_log_end()
    previous = context.previous
    assert previous is not None  # the declaration refuses it for a first source
    if previous.offsets is not None and previous.offsets.exact:
        return look.after_offsets(previous.offsets)
    position = look.at_time(previous.complete_through_ms, previous.evidence)
    return position if previous.offsets is None else look.not_after(previous.offsets, position)


class _LookUp:
    """One decision: the log is asked in an order in which nothing can slip through."""

    def __init__(
        self,
        source: KafkaSource,
        context: SourceSwitchContext,
        lateness_ms: int,
        now_ms: int,
        listed: Mapping[TopicPartition, int],
    ) -> None:
        self._source = source
        self._log = context.log
        self._previous = context.previous
        self._lateness_ms = lateness_ms
        self._listed = listed
        self.now_ms = now_ms

    def at_time(self, time_ms: int, evidence: Evidence) -> StartPosition:
        """Start each partition at its first record at or after a time.

        End offsets are asked for before the time, and a partition without a match starts there,
        so that a record appended in between is not skipped (as Flink's
        TimestampOffsetsInitializer).
        """
        if time_ms > self.now_ms:
            message = f"Source `{self._source.name}` would start at {iso(time_ms)}, in the future."
            hint = "One row with a bad clock is enough: mend it, or write a fixed `start`."
            raise SeamError(message, hint)
        ends = self._log.log_end()
        found = self._log.offsets_for_time(time_ms)
        starts = self._log.log_start()
        unanswered = self._unanswered(found, starts, time_ms)
        partitions: dict[TopicPartition, PartitionStart] = {}
        gaps: list[Gap] = []
        for at, offset in found.items():
            start, reason = offset or 0, f"first record at or after {iso(time_ms)}"
            if at in unanswered:
                start, reason = starts[at], f"log start: no answer for {iso(time_ms)}"
            elif offset is None:
                start = ends[at]
                reason = f"no record at or after {iso(time_ms)}: end offset read before the look-up"
            listed = self._listed.get(at)
            if evidence in ("timestamp", "sequence") and listed is not None and listed < start:
                start = listed
                reason = "log end when history was listed: nothing later is in the files"
                if listed < starts[at]:
                    why = f"nothing after offset {listed} is in the files; the log starts later"
                    gaps.append(_gap(at, why, from_offset=listed, to_offset=starts[at]))
            # Retention may have passed the offset since it was found.
            start = max(start, starts[at])
            partitions[at] = PartitionStart(
                start=start, log_start=starts[at], log_end=max(ends[at], start), reason=reason
            )
        gaps += self._deleted(time_ms, starts, ends)
        if self._previous is not None and time_ms > self._previous.complete_through_ms:
            gaps += self._skipped(partitions, self._previous.complete_through_ms)
        return self._position(partitions, evidence, time_ms, gaps)

    def after_offsets(self, held: HeldOffsets) -> StartPosition:
        """Start each partition after the last record that history says it holds."""
        self._require_own(held)
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions, gaps = {}, []
        for at in self._log.partitions:
            wanted = held.next.get(at)
            reason = "history holds none of its records: log start"
            if wanted is not None:
                reason = f"history holds its records up to offset {wanted - 1}"
            if (wanted or 0) < starts[at]:
                why = f"{reason}; the log starts at offset {starts[at]}"
                gaps.append(_gap(at, why, from_offset=wanted or 0, to_offset=starts[at]))
            partitions[at] = PartitionStart(
                start=max(wanted or 0, starts[at]),
                log_start=starts[at],
                log_end=ends[at],
                reason=reason,
            )
        found = self._in_holes(held, starts, ends)
        for at, offset in found.items():
            why = f"history holds later records, but not the one at offset {offset}"
            gaps.append(_gap(at, why, from_offset=offset, to_offset=offset + 1))
        position = self._position(partitions, "offsets", None, gaps)
        check_in_log(position, starts, ends)
        return position

    def not_after(self, held: HeldOffsets, position: StartPosition) -> StartPosition:
        """Start each partition at the lower of a position by time and what the files suggest.

        Files that only suggest their offsets can't raise a start: a neighbour of a record may be
        in a file that has not arrived. They can lower it, for a partition that lags.
        """
        self._require_own(held)
        ends, starts = self._log.log_end(), self._log.log_start()
        missing = self._in_holes(held, starts, ends)
        partitions, gaps = {}, list(position.gaps)
        for at, part in position.partitions.items():
            suggested = missing.get(at, held.next.get(at, 0))
            if suggested >= part.start:
                partitions[at] = part
                continue
            reason = f"the files suggest that they end before offset {suggested}"
            if suggested < starts[at]:
                why = f"{reason}; the log starts at offset {starts[at]}"
                gaps.append(_gap(at, why, from_offset=suggested, to_offset=starts[at]))
            update = {"start": max(suggested, starts[at]), "reason": reason}
            partitions[at] = part.model_copy(update=update)
        return position.model_copy(update={"partitions": partitions, "gaps": gaps})

    def at_log_start(self) -> StartPosition:
        """Start each partition at the first record that is still there."""
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            at: PartitionStart(start=first, log_start=first, log_end=ends[at], reason="log start")
            for at, first in starts.items()
        }
        gaps = [] if self._previous is None else self._deleted(0, starts, ends)
        return self._position(partitions, "fixed", None, gaps)

    def at_log_end(self) -> StartPosition:
        """Start each partition at the first record that is not there yet."""
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            at: PartitionStart(start=end, log_start=starts[at], log_end=end, reason="log end")
            for at, end in ends.items()
        }
        return self._position(partitions, "fixed", None, [])

    def at_offsets(
        self, declared: Mapping[str, Mapping[int, int]], evidence: Evidence
    ) -> StartPosition:
        """Start at offsets that somebody wrote; they must name exactly the partitions there are."""
        offsets = written_offsets(
            declared, self._log.partitions, f"The start offsets of source `{self._source.name}`"
        )
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            at: PartitionStart(
                start=offset, log_start=starts[at], log_end=ends[at], reason="declared"
            )
            for at, offset in offsets.items()
        }
        position = self._position(partitions, evidence, None, [])
        check_in_log(position, starts, ends)
        return position

    def _require_own(self, held: HeldOffsets) -> None:
        """Refuse a history of other partitions: it would tell nothing of these."""
        if strange := sorted(set(held.next) - set(self._log.partitions)):
            message = (
                f"The files hold records of {strange[0]}, which source `{self._source.name}` does "
                "not read."
            )
            raise SeamError(message, "Correct `topic`, or leave `offsets` out.")

    def _in_holes(self, held: HeldOffsets, starts: Offsets, ends: Offsets) -> Offsets:
        """First record of the log that lies in a hole of history, by partition."""
        inside = {
            at: [
                (max(first, starts[at]), min(end, ends[at]))
                for first, end in ranges
                if end > starts[at] and first < ends[at]
            ]
            for at, ranges in held.holes.items()
        }
        return self._log.first_within({at: parts for at, parts in inside.items() if parts})

    def _unanswered(
        self, found: Mapping[TopicPartition, int | None], starts: Offsets, time_ms: int
    ) -> set[TopicPartition]:
        """Partitions of which "none" is no answer: there may be records at or after the time.

        Kafka looks into one segment only; there, DeleteRecords may have left none.
        """
        doubtful = [at for at, offset in found.items() if offset is None and starts[at] > 0]
        newest = self._log.newest_ms() if doubtful else {}
        # An open transaction hides the newest record.
        return {at for at in doubtful if (at_ms := newest[at]) is None or at_ms >= time_ms}

    def _deleted(self, time_ms: int, starts: Offsets, ends: Offsets) -> list[Gap]:
        """Where the log no longer reaches back to what history covers.

        A time older than the log is answered with the log's start: tell that from a match. What
        was deleted may be newer than the first record that is left by as much as records come
        out of order, so the log has to reach back that much further.
        """
        previous = self._previous
        needed_ms = time_ms if previous is None else previous.complete_through_ms
        reach_ms = needed_ms - self._lateness_ms
        suspects = {at: first for at, first in starts.items() if first > 0}
        firsts = {record.at: record for record in self._log.read(suspects, 1, ends)}
        gaps = []
        for at, first in suspects.items():
            covered = f"history is complete through {iso(needed_ms)}"
            if previous is None:
                covered = f"the first record asked for is at {iso(needed_ms)}"
            if at not in firsts:
                why = f"all its records before offset {first} are deleted, and {covered}"
                gaps.append(_gap(at, why, from_ms=needed_ms, to_offset=first))
            elif (left_ms := firsts[at].timestamp_ms) >= reach_ms:
                length_s = max(left_ms - needed_ms, 0) / 1000
                lost = f"the {length_s:,.0f} s between are in neither"
                if left_ms <= needed_ms:
                    lateness_s = self._lateness_ms / 1000
                    lost = f"as records come up to {lateness_s:,.0f} s late, newer ones may be gone"
                why = (
                    f"the log starts at offset {firsts[at].offset}, {iso(left_ms)}; {covered}; "
                    f"{lost}"
                )
                gaps.append(_gap(at, why, from_ms=needed_ms, to_ms=left_ms, to_offset=first))
        return gaps

    def _skipped(
        self, partitions: Mapping[TopicPartition, PartitionStart], needed_ms: int
    ) -> list[Gap]:
        """Where a time that somebody chose leaves out records that history may not hold."""
        gaps = []
        found = self._log.offsets_for_time(needed_ms)
        starts = {at: part.log_start for at, part in partitions.items()}
        unanswered = self._unanswered(found, starts, needed_ms)
        for at, answer in found.items():
            offset = starts[at] if at in unanswered else answer
            if offset is not None and offset < partitions[at].start:
                why = (
                    f"history is complete through {iso(needed_ms)}, which is offset {offset}; "
                    f"the start would be offset {partitions[at].start}"
                )
                to = partitions[at].start
                gaps.append(_gap(at, why, from_ms=needed_ms, from_offset=offset, to_offset=to))
        return gaps

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


def written_offsets(
    declared: Mapping[str, Mapping[int, int]], partitions: Sequence[TopicPartition], what: str
) -> Offsets:
    """Offsets that somebody wrote, by partition.

    Args:
        declared: By topic, which may be empty if there is only one, and partition.
        partitions: All there are.
        what: What they are, for the error.

    Raises:
        SeamError: A partition is not named, or there is no such one.
    """
    only = partitions[0].topic
    offsets = flatten({topic or only: parts for topic, parts in declared.items()})
    if set(offsets) != set(partitions):
        missing = sorted(set(partitions) - set(offsets))
        unknown = sorted(set(offsets) - set(partitions))
        said = [f"{at} has no offset" for at in missing[:1]]
        said += [f"there is no {at}" for at in unknown[:1]]
        message = f"{what}: {'; '.join(said)}."
        raise SeamError(message, "Name an offset for each partition.")
    return offsets


def needed_offsets(
    log: Log, start: StartPosition, previous: EndPosition | None, lateness_ms: int
) -> Offsets:
    """First offset that has to be in the log when a hand-over like this one is made.

    That is the start; or, for a start by time, the last record before the first one that is no
    later than records come late: it proves that nothing newer was deleted.
    """
    starts = start.offsets()
    if start.time_ms is None:
        return starts
    needed_ms = start.time_ms if previous is None else previous.complete_through_ms
    reached = log.offsets_for_time(max(needed_ms - lateness_ms, 0))
    found = {at: starts[at] if offset is None else offset for at, offset in reached.items()}
    begun = log.log_start()
    return {
        # A control record may be the answer, and the log begin with it.
        at: max(min(offset, found.get(at, offset)) - 1, begun.get(at, 0))
        for at, offset in starts.items()
    }


def _call(name: str, load: Callable[[str], UserFactory], context: SourceSwitchContext) -> Any:
    factory = load(name)
    try:
        return factory(context)
    # The user's code: whatever it raises is the answer.
    except Exception as error:
        message = f"`start.factory: {name}` raised {type(error).__name__}: {error}."
        raise SeamError(message, "Correct it; nothing was decided.") from error


def _from_user(look: _LookUp, name: str, answer: Any) -> StartPosition:
    """What the user's factory returned, held to what a declaration may say."""
    if isinstance(answer, datetime) and answer.tzinfo is not None:
        return look.at_time(to_ms(answer), "factory")
    try:
        if isinstance(answer, Mapping):
            offsets = StartAtOffsets.model_validate({"offsets": dict(answer)})
            return look.at_offsets(offsets.offsets, "factory")
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    message = f"`start.factory: {name}` returned {answer!r}."
    hint = "Return a datetime with a zone, or an offset for each partition: {0: 17, 1: 4}."
    raise SeamError(message, hint)


def check_in_log(position: StartPosition, log_start: Offsets, log_end: Offsets) -> None:
    """Refuse a start that the log does not hold; asked again just before each first launch.

    A start beyond the log's end would poison Spark's checkpoint for good, one before its start
    would lose what was deleted.

    Raises:
        SeamError: Names topic, partition, offsets and what was lost.
    """
    for at, part in position.partitions.items():
        where = f"Topic `{at.topic}`, partition {at.partition}: start offset {part.start}"
        if at not in log_end:
            message = f"{where} was decided, but the partition is gone."
            raise SeamError(message, "The topic was made anew: start over with a new state folder.")
        if part.start < log_start[at]:
            lost = log_start[at] - part.start
            message = f"{where} is before the log start {log_start[at]}: {lost} offsets lost."
            raise SeamError(message, "Kafka deleted them: start over with a new state folder.")
        if part.start > log_end[at]:
            message = f"{where} is beyond the log end {log_end[at]}."
            hint = "The topic was made anew, a transaction is open, or the offset is wrong."
            raise SeamError(message, hint)


def check_not_deleted(reached: Offsets, log_start: Offsets) -> None:
    """Refuse to go on where Kafka deleted records that were not read yet.

    Args:
        reached: First offset that was not read, by partition.
        log_start: First offset that is left.

    Raises:
        SeamError: Names topic, partition, offsets and how many were lost.
    """
    for at, offset in sorted(reached.items()):
        if offset < (start := log_start.get(at, offset)):
            message = (
                f"Topic `{at.topic}`, partition {at.partition} was read up to offset {offset}, and "
                f"its log starts at {start}: {start - offset} offsets were deleted meanwhile."
            )
            raise SeamError(message, "They are lost: start over with a new state folder.")


def _gap(at: TopicPartition, why: str, **known: int) -> Gap:
    return Gap(topic=at.topic, partition=at.partition, why=why, **known)
