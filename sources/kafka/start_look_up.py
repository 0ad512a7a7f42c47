"""Look-ups that turn times and offsets into a start position, and find gaps in the log."""

from __future__ import annotations

from collections.abc import Mapping

from sources.common.positions import (
    Evidence,
    Gap,
    HeldOffsets,
    Offsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
    iso,
)
from sources.config.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.hybrid import SourceSwitchContext
from sources.kafka.start_checks import check_in_log, written_offsets


class StartLookUp:
    """One decision about the start offsets of a Kafka source, for each kind of start.

    The Kafka log is asked in an order in which no record can be missed. Every method may raise
    ``UnavailableError`` if the broker does not answer, and ``InputError`` if it refuses.

    Args:
        source: Declaration of the source.
        context: End position of the source before, if there is one, and look-ups on the topics.
        lateness_ms: How many milliseconds behind the newest record one may still be appended.
        now_ms: Time now, in milliseconds.
        listed: Log end of each partition when history was listed.

    Attributes:
        now_ms: The same.
    """

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
        """Return the start at the first record of each partition at or after a time.

        End offsets are asked for before the time, and a partition without a match starts there,
        so that a record appended in between is not skipped (as Flink's
        TimestampOffsetsInitializer). A time that history's end decided never starts a partition
        beyond its log end when history was listed.

        Args:
            time_ms: Record timestamp in milliseconds.
            evidence: What the time was decided by.

        Returns:
            The start position; with gaps where deleted or skipped records may be missing.

        Raises:
            SeamError: The time lies in the future.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        if time_ms > self.now_ms:
            name = self._source.name
            message = (
                f"Source `{name}` would start at {iso(time_ms)}, in the future: it is now "
                f"{iso(self.now_ms)}."
            )
            hint = (
                "If the time is the end of history, a single row with a wrong clock is enough: "
                f"correct that row, or declare a fixed `start` for source `{name}`. If the time is "
                "declared, declare an earlier one."
            )
            raise SeamError(message, hint, source=name, field="start", value=iso(time_ms))
        ends = self._log.log_end()
        answers = self._log.offsets_for_time(time_ms)
        starts = self._log.log_start()
        unanswered = self._unanswered(answers, starts, time_ms)
        partitions: dict[TopicPartition, PartitionStart] = {}
        gaps: list[Gap] = []
        for partition, offset in answers.items():
            start, reason = offset or 0, f"first record at or after {iso(time_ms)}"
            if partition in unanswered:
                start, reason = starts[partition], f"log start: no answer for {iso(time_ms)}"
            elif offset is None:
                start = ends[partition]
                reason = f"no record at or after {iso(time_ms)}: end offset read before the look-up"
            listed = self._listed.get(partition)
            if evidence in ("timestamp", "sequence") and listed is not None and listed < start:
                start = listed
                reason = "log end when history was listed: nothing later is in the files"
                if listed < starts[partition]:
                    why = f"nothing after offset {listed} is in the files; the log starts later"
                    gaps.append(
                        _gap(partition, why, from_offset=listed, to_offset=starts[partition])
                    )
            # Retention may have passed the offset since it was found.
            start = max(start, starts[partition])
            partitions[partition] = PartitionStart(
                start=start,
                log_start=starts[partition],
                log_end=max(ends[partition], start),
                reason=reason,
            )
        gaps += self._deleted(time_ms, starts, ends)
        if self._previous is not None and time_ms > self._previous.complete_through_ms:
            gaps += self._skipped(partitions, self._previous.complete_through_ms)
        return self._position(partitions, evidence, time_ms, gaps)

    def after_offsets(self, held: HeldOffsets) -> StartPosition:
        """Return the start after the last record of each partition that history holds.

        Args:
            held: Exact offsets that the files of history, or the source before, hold.

        Returns:
            The start position; with gaps where the log starts later, or where a record of the log
            is in a hole of history. A partition of which history holds none starts at its log
            start.

        Raises:
            SeamError: History holds records of a partition that the source does not read, or ends
                beyond the log end.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        self._require_own(held)
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions, gaps = {}, []
        for partition in self._log.partitions:
            following = held.next.get(partition)
            reason = "history holds none of its records: log start"
            if following is not None:
                reason = f"history holds its records up to offset {following - 1}"
            if (following or 0) < starts[partition]:
                why = f"{reason}; the log starts at offset {starts[partition]}"
                gaps.append(
                    _gap(partition, why, from_offset=following or 0, to_offset=starts[partition])
                )
            partitions[partition] = PartitionStart(
                start=max(following or 0, starts[partition]),
                log_start=starts[partition],
                log_end=ends[partition],
                reason=reason,
            )
        for partition, offset in self._in_holes(held, starts, ends).items():
            why = f"history holds later records, but not the one at offset {offset}"
            gaps.append(_gap(partition, why, from_offset=offset, to_offset=offset + 1))
        position = self._position(partitions, "offsets", None, gaps)
        check_in_log(position, starts, ends)
        return position

    def not_after(self, held: HeldOffsets, position: StartPosition) -> StartPosition:
        """Return the lower of a start by time and the one that the files' offsets suggest.

        Files that only suggest their offsets can't raise a start: a neighbour of a record may be
        in a file that has not arrived. They can lower it, for a partition that lags.

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
        missing = self._in_holes(held, starts, ends)
        partitions, gaps = {}, list(position.gaps)
        for partition, part in position.partitions.items():
            suggested = missing.get(partition, held.next.get(partition, 0))
            if suggested >= part.start:
                partitions[partition] = part
                continue
            reason = f"the files suggest that they end before offset {suggested}"
            if suggested < starts[partition]:
                why = f"{reason}; the log starts at offset {starts[partition]}"
                gaps.append(
                    _gap(partition, why, from_offset=suggested, to_offset=starts[partition])
                )
            update = {"start": max(suggested, starts[partition]), "reason": reason}
            partitions[partition] = part.model_copy(update=update)
        return position.model_copy(update={"partitions": partitions, "gaps": gaps})

    def at_log_start(self) -> StartPosition:
        """Return the start at the first record of each partition that is not deleted.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            partition: PartitionStart(
                start=first, log_start=first, log_end=ends[partition], reason="log start"
            )
            for partition, first in starts.items()
        }
        gaps = [] if self._previous is None else self._deleted(0, starts, ends)
        return self._position(partitions, "fixed", None, gaps)

    def at_log_end(self) -> StartPosition:
        """Return the start at each partition's log end: only records appended from now on are read.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            partition: PartitionStart(
                start=end, log_start=starts[partition], log_end=end, reason="log end"
            )
            for partition, end in ends.items()
        }
        return self._position(partitions, "fixed", None, [])

    def at_offsets(
        self, declared: Mapping[str, Mapping[int, int]], evidence: Evidence
    ) -> StartPosition:
        """Return the start at offsets that were declared, or that the user's factory returned.

        Args:
            declared: Offsets by topic name (empty text if there is one topic) and partition number.
            evidence: What the offsets were decided by.

        Raises:
            SeamError: A partition is left out or does not exist, or an offset is before the log
                start or beyond the log end.
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        offsets = written_offsets(
            declared, self._log.partitions, f"The start offsets of source `{self._source.name}`"
        )
        ends, starts = self._log.log_end(), self._log.log_start()
        partitions = {
            partition: PartitionStart(
                start=offset,
                log_start=starts[partition],
                log_end=ends[partition],
                reason="declared",
            )
            for partition, offset in offsets.items()
        }
        position = self._position(partitions, evidence, None, [])
        check_in_log(position, starts, ends)
        return position

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

    def _in_holes(self, held: HeldOffsets, starts: Offsets, ends: Offsets) -> Offsets:
        """Return the first record of the log that lies in a hole of history, by partition."""
        inside = {
            partition: [
                (max(first, starts[partition]), min(end, ends[partition]))
                for first, end in ranges
                if end > starts[partition] and first < ends[partition]
            ]
            for partition, ranges in held.holes.items()
        }
        return self._log.first_within(
            {partition: parts for partition, parts in inside.items() if parts}
        )

    def _unanswered(
        self, answers: Mapping[TopicPartition, int | None], starts: Offsets, time_ms: int
    ) -> set[TopicPartition]:
        """Return partitions that may have records at or after a time although Kafka found none.

        Kafka searches one segment only, in which DeleteRecords may have left no record.
        """
        doubtful = [
            partition
            for partition, offset in answers.items()
            if offset is None and starts[partition] > 0
        ]
        newest = self._log.newest_ms() if doubtful else {}
        # An open transaction hides the newest record.
        return {
            partition
            for partition in doubtful
            if (at_ms := newest[partition]) is None or at_ms >= time_ms
        }

    def _deleted(self, time_ms: int, starts: Offsets, ends: Offsets) -> list[Gap]:
        """Return gaps where the log no longer reaches back to what history covers.

        For a time older than the log, Kafka answers with the log start, as for a match. Deleted
        records may be newer than the first record that is left by as much as records come out of
        order, so the log has to reach back that much further.
        """
        previous = self._previous
        needed_ms = time_ms if previous is None else previous.complete_through_ms
        reach_ms = needed_ms - self._lateness_ms
        suspects = {partition: first for partition, first in starts.items() if first > 0}
        firsts = {record.partition: record for record in self._log.read(suspects, 1, ends)}
        gaps = []
        for partition, first in suspects.items():
            covered = f"history is complete through {iso(needed_ms)}"
            if previous is None:
                covered = f"the first record asked for is at {iso(needed_ms)}"
            if partition not in firsts:
                why = f"all its records before offset {first} are deleted, and {covered}"
                gaps.append(_gap(partition, why, from_ms=needed_ms, to_offset=first))
            elif (left_ms := firsts[partition].timestamp_ms) >= reach_ms:
                length_s = max(left_ms - needed_ms, 0) / 1000
                lost = f"the {length_s:,.0f} s between are in neither"
                if left_ms <= needed_ms:
                    lateness_s = self._lateness_ms / 1000
                    lost = (
                        f"as records come up to {lateness_s:,.0f} s late, newer ones may be deleted"
                    )
                begin = f"the log starts at offset {firsts[partition].offset}, {iso(left_ms)}"
                why = f"{begin}; {covered}; {lost}"
                gaps.append(_gap(partition, why, from_ms=needed_ms, to_ms=left_ms, to_offset=first))
        return gaps

    def _skipped(
        self, partitions: Mapping[TopicPartition, PartitionStart], needed_ms: int
    ) -> list[Gap]:
        """Return gaps where a declared time leaves out records that history may not hold."""
        gaps = []
        answers = self._log.offsets_for_time(needed_ms)
        starts = {partition: part.log_start for partition, part in partitions.items()}
        unanswered = self._unanswered(answers, starts, needed_ms)
        for partition, answer in answers.items():
            offset = starts[partition] if partition in unanswered else answer
            if offset is not None and offset < partitions[partition].start:
                why = (
                    f"history is complete through {iso(needed_ms)}, which is offset {offset}; "
                    f"the start would be offset {partitions[partition].start}"
                )
                to = partitions[partition].start
                gaps.append(
                    _gap(partition, why, from_ms=needed_ms, from_offset=offset, to_offset=to)
                )
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


def _gap(partition: TopicPartition, why: str, **known: int) -> Gap:
    return Gap(topic=partition.topic, partition=partition.partition, why=why, **known)
