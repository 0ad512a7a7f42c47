"""Where Kafka starts: each rule of the hand-over, told by a small log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sources.common.positions import (
    EndPosition,
    Gap,
    HeldOffsets,
    Offsets,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.common.topic_log import Log, LogRecord
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError, UnavailableError
from sources.hybrid import SourceSwitchContext
from sources.kafka.start.declared_start import GapError, factory_for
from sources.kafka.start.log_checks import check_in_log, needed_offsets
from sources.kafka.start.start_offsets import Known
from tests.sources.kafka.model_log import ChangingLog, ModelLog

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
U0 = TopicPartition("u", 0)

WAY_OUT = (
    " No start was decided, as rows could be missing from the table. Let the files of history "
    "cover these records (`on_gap: extend` reads files that arrived in the meantime), or declare "
    "`on_gap: accept` for source `live` to continue without these records."
)
NEW_GENERATION = (
    "begin a new generation: `hybrid generation new P`, which computes the whole table "
    "again next to the one that serves."
)
BEFORE_THE_START = (
    "Let the files of history cover the deleted records, or raise the offset if it is declared "
    f"under `start`. If the pipeline is planned already, {NEW_GENERATION}"
)
BEYOND_THE_END = (
    "If the offset is declared or comes from the names or columns of files, correct it. If a "
    "transaction is open, which keeps the log end back, try again when it has ended. If "
    f"the topic was created again, {NEW_GENERATION}"
)


def ms(second: float) -> int:
    """A time, in seconds after noon."""
    return NOON_MS + round(second * 1000)


def log(
    records: Mapping[TopicPartition, Iterable[float] | Mapping[int, float]],
    deleted_to: Mapping[TopicPartition, int] | None = None,
    **more: Any,
) -> ModelLog:
    """A log, of timestamps in seconds after noon: one after the other, or by offset."""
    appended = {
        at: [
            LogRecord(at, offset, ms(second), b"{}")
            for offset, second in sorted(
                times.items() if isinstance(times, Mapping) else enumerate(times)
            )
        ]
        for at, times in records.items()
    }
    return ModelLog(appended, deleted_to=dict(deleted_to or {}), **more)


def history(through: float, **more: Any) -> EndPosition:
    """The end of a history that is complete through a time, in seconds after noon."""
    return EndPosition(
        source="history",
        event_time_ms=more.pop("event_time_ms", ms(through)),
        complete_through_ms=ms(through),
        event_times="exact",
        splits=1,
        rows=1,
        **more,
    )


def holds(
    next_offsets: Mapping[TopicPartition, int],
    holes: Mapping[TopicPartition, list[tuple[int, int]]] | None = None,
    *,
    exact: bool = True,
    beside: Mapping[TopicPartition, list[tuple[str, str]]] | None = None,
) -> EndPosition:
    """The end of a history that says itself which records it holds."""
    held = HeldOffsets(
        next=dict(next_offsets), exact=exact, holes=dict(holes or {}), beside=dict(beside or {})
    )
    return history(0, offsets=held)


def decide(
    asked: Log,
    previous: EndPosition | None,
    *,
    lateness: float = 0,
    now: float = 3600,
    user: Callable[[SourceSwitchContext], Any] | None = None,
    listed: Offsets | None = None,
    is_declared: bool = False,
    expected: StartPosition | None = None,
    **declared: Any,
) -> StartPosition:
    """Run the hand-over that a source declares; ``user`` is the factory it names, if any."""
    if user is not None:
        declared["start"] = {"factory": "mine:start"}
    topics = sorted({at.topic for at in asked.partitions})
    topic = topics[0] if len(topics) == 1 else topics
    source = KafkaSource.model_validate(
        {"type": "kafka", "name": "live", "topic": topic, **declared}
    )

    def load(name: str) -> Callable[[SourceSwitchContext], Any]:
        assert name == "mine:start"
        assert user is not None
        return user

    factory = factory_for(
        source,
        round(lateness * 1000),
        load,
        lambda: ms(now),
        Known(listed or {}, is_declared, expected),
    )
    return factory(SourceSwitchContext(previous, asked))


def starts(position: StartPosition) -> dict[TopicPartition, int]:
    assert position.source == "live"
    return dict(position.offsets())


def refused(*given: Any, **more: Any) -> str:
    with pytest.raises(SeamError) as caught:
        decide(*given, **more)
    return str(caught.value)


def gaps(*given: Any, **more: Any) -> list[Gap]:
    with pytest.raises(GapError) as caught:
        decide(*given, **more)
    return caught.value.gaps


def appending(*seconds: float) -> Callable[[ModelLog], None]:
    def change(now: ModelLog) -> None:
        for second in seconds:
            now.append(T0, ms(second))

    return change


def deleting_to(offset: int) -> Callable[[ModelLog], None]:
    def change(now: ModelLog) -> None:
        now.deleted_to = {T0: offset}

    return change


def nothing(_: ModelLog) -> None:
    pass


def launch(moving: ChangingLog, lateness: float = 0) -> None:
    """Decide while offset 2 goes, and launch once it is gone."""
    found = decide(moving, history(20), lateness=lateness)
    deleting_to(3)(moving.now)
    check_in_log(found, moving.now.log_start(), moving.now.log_end())


class TestAtATime:
    def test_a_partition_starts_at_its_first_record_at_or_after_the_time(self) -> None:
        found = decide(log({T0: [0, 10, 20, 30]}), history(20))
        assert starts(found) == {T0: 2}
        assert (found.evidence, found.time_ms, found.gaps) == ("timestamp", ms(20), [])
        assert found.partitions[T0] == PartitionStart(
            start=2, log_start=0, log_end=4, reason="first record at or after 2024-01-01T12:00:20Z"
        )

    def test_first_is_meant_in_the_order_of_offsets(self) -> None:
        assert starts(decide(log({T0: [0, 30, 10, 20]}), history(20))) == {T0: 1}

    def test_a_record_of_the_same_millisecond_is_read_again(self) -> None:
        assert starts(decide(log({T0: [20, 20, 20, 21]}), history(20))) == {T0: 0}

    def test_each_partition_of_each_topic_has_its_own_start(self) -> None:
        asked = log({T0: [10, 30], T1: [20, 25, 40], U0: [5, 6, 7, 50]})
        assert starts(decide(asked, history(25))) == {T0: 1, T1: 1, U0: 3}

    def test_control_records_take_up_offsets(self) -> None:
        assert starts(decide(log({T0: {0: 10, 3: 20, 7: 30}}), history(25))) == {T0: 7}

    def test_a_control_record_may_be_the_start(self) -> None:
        asked = log({T0: {0: 10, 2: 20}}, markers={T0: [(1, ms(500)), (3, ms(501))]})
        assert starts(decide(asked, history(20))) == {T0: 1}

    def test_without_a_match_a_partition_starts_at_its_end(self) -> None:
        found = decide(log({T0: [10, 20], T1: [10, 30]}), history(25))
        assert starts(found) == {T0: 2, T1: 1}
        reason = "no record at or after 2024-01-01T12:00:25Z: end offset read before the look-up"
        assert found.partitions[T0].reason == reason

    def test_an_empty_partition_starts_at_its_beginning(self) -> None:
        assert starts(decide(log({T0: []}), history(25))) == {T0: 0}

    @pytest.mark.parametrize("second", [20, 30])
    def test_a_record_appended_between_the_two_questions_is_not_skipped(self, second: int) -> None:
        quiet = log({T0: [0, 10]})
        busy = ChangingLog(quiet, [appending(second)] * 20)
        assert starts(decide(busy, history(25))) == {T0: 2}
        assert busy.asked[:2] == ["log_end", "offsets_for_time"]

    def test_the_end_is_not_before_the_start_where_the_log_grew_meanwhile(self) -> None:
        quiet = log({T0: [0]})
        growing = ChangingLog(quiet, [appending(10, 30)])
        found = decide(growing, history(25))
        assert starts(found) == {T0: 2}
        check_in_log(found, quiet.log_start(), quiet.log_end())

    def test_a_time_in_the_future_is_refused(self) -> None:
        message = (
            "Source `live` would start at 2024-01-01T12:00:20Z, in the future: it is now "
            "2024-01-01T12:00:19.999Z. A single row with a wrong clock moves the end of history, "
            "which is the highest event time in source `history`. Declare or correct "
            "`complete_through` for it: the time up to which its files are complete. Or declare "
            "`not_after` under the pipeline's `event_time`: rows after it do not count, and "
            "`event_time.outside` says what happens to them. Then repeat the command."
        )
        assert refused(log({T0: [10]}), history(20), now=19.999) == message
        assert starts(decide(log({T0: [10]}), history(20), now=20)) == {T0: 1}

    def test_a_time_beyond_the_calendar_is_in_the_future_too(self) -> None:
        year_33658 = history(1e12)
        assert "in the future" in refused(log({T0: [10]}), year_33658)


class TestARecordBeforeTheStart:
    """Flink's page starts at ``end + 1``; here is the log that shows why that loses a record.

    Files were cut after the record of second 20, so they end there; then one came that was late.
    """

    LATE = log({T0: [0, 20, 15, 21]})
    CUT = history(15, event_time_ms=ms(20))

    def test_an_older_record_appended_behind_the_end_of_history_is_read(self) -> None:
        assert starts(decide(self.LATE, self.CUT, lateness=5)) == {T0: 1}

    def test_end_plus_one_is_refused_as_a_gap(self) -> None:
        after_end = {"timestamp": "2024-01-01T12:00:20.001Z"}
        assert refused(self.LATE, self.CUT, lateness=5, start=after_end) == (
            "Topic `t`, partition 0: history is complete through 2024-01-01T12:00:15Z, which is "
            "offset 1; the start would be offset 3." + WAY_OUT
        )
        (gap,) = gaps(self.LATE, self.CUT, lateness=5, start=after_end)
        assert (gap.from_ms, gap.from_offset, gap.to_offset) == (ms(15), 1, 3)


class TestALogThatBeginsTooLate:
    def test_the_refusal_names_partition_time_and_length(self) -> None:
        asked = log({T0: [0, 10, 4000, 4010]}, {T0: 2})
        assert refused(asked, history(400), now=9999) == (
            "Topic `t`, partition 0: the log starts at offset 2, 2024-01-01T13:06:40Z; history is "
            "complete through 2024-01-01T12:06:40Z; the 1 h between are in neither." + WAY_OUT
        )

    def test_the_gap_tells_times_and_offsets(self) -> None:
        (gap,) = gaps(log({T0: [0, 10, 40, 50]}, {T0: 2}), history(20))
        assert (gap.topic, gap.partition) == T0
        assert (gap.from_ms, gap.to_ms) == (ms(20), ms(40))
        assert (gap.from_offset, gap.to_offset) == (None, 2)

    def test_one_deleted_record_is_as_much_a_gap_as_many(self) -> None:
        (gap,) = gaps(log({T0: [0, 40, 50]}, {T0: 1}), history(20))
        assert (gap.from_ms, gap.to_ms, gap.to_offset) == (ms(20), ms(40), 1)

    def test_the_error_has_the_first_offset_that_is_lost_if_it_is_known(self) -> None:
        lost = Gap(topic="t", partition=0, why="gone", from_offset=7, to_offset=9)
        known, unknown = (
            GapError("live", [each, lost]).fields
            for each in (lost, lost.model_copy(update={"from_offset": None}))
        )
        assert (known["topic"], known["partition"], known["offset"]) == ("t", 0, 7)
        assert "offset" not in unknown

    def test_a_log_that_still_has_everything_may_begin_after_history(self) -> None:
        found = decide(log({T0: [40, 50]}), history(20))
        assert (starts(found), found.gaps) == ({T0: 0}, [])

    def test_a_log_that_reaches_back_far_enough_is_fine(self) -> None:
        found = decide(log({T0: [0, 10, 19, 20, 30]}, {T0: 2}), history(20))
        assert (starts(found), found.gaps) == ({T0: 3}, [])

    def test_it_has_to_reach_back_further_by_as_much_as_records_come_late(self) -> None:
        # The record of second 20, deleted, was followed by an older one.
        asked = log({T0: [0, 20, 16, 17, 30]}, {T0: 2})
        assert refused(asked, history(20), lateness=5) == (
            "Topic `t`, partition 0: the log starts at offset 2, 2024-01-01T12:00:16Z; history is "
            "complete through 2024-01-01T12:00:20Z; as records come up to 5 s late, newer ones may "
            "be deleted." + WAY_OUT
        )
        assert decide(asked, history(20), lateness=3).gaps == []

    def test_a_record_exactly_as_late_as_allowed_may_follow_a_deleted_one(self) -> None:
        assert gaps(log({T0: [20, 20, 20]}, {T0: 2}), history(20))

    def test_the_log_start_may_be_no_record(self) -> None:
        # Compaction left nothing of offsets 2 and 3.
        assert gaps(log({T0: {0: 10, 1: 30, 4: 40}}, {T0: 2}), history(20))

    def test_the_log_start_may_be_a_control_record(self) -> None:
        asked = log({T0: {0: 10, 1: 30, 3: 40}}, {T0: 2}, markers={T0: [(2, ms(31))]})
        assert gaps(asked, history(20))

    def test_a_control_record_at_the_log_start_is_no_gap(self) -> None:
        # It carries the clock's time, the records that of the events.
        asked = log({T0: {0: 10, 2: 11, 4: 30}}, {T0: 1}, markers={T0: [(1, ms(500))]})
        found = decide(asked, history(20))
        assert (starts(found), found.gaps) == ({T0: 1}, [])

    def test_one_partition_is_enough_and_the_others_are_counted(self) -> None:
        asked = log({T0: [0, 20], T1: [0, 40], U0: [0, 50]}, {T1: 1, U0: 1})
        text = refused(asked, history(20))
        assert text.startswith("Topic `t`, partition 1: the log starts at offset 1, ")
        assert "are in neither (and 1 more of this kind)." in text
        assert [(gap.topic, gap.partition) for gap in gaps(asked, history(20))] == [T1, U0]

    @pytest.mark.parametrize("end", [3, 7])
    def test_a_partition_whose_records_are_all_deleted_proves_nothing(self, end: int) -> None:
        asked = log({T0: [0, 10, 20]}, {T0: end})
        assert refused(asked, history(5)) == (
            f"Topic `t`, partition 0: all its records before offset {end} are deleted, and history "
            "is complete through 2024-01-01T12:00:05Z." + WAY_OUT
        )
        found = decide(asked, history(5), on_gap="accept")
        assert (starts(found), len(found.gaps)) == ({T0: end}, 1)

    def test_an_accepted_gap_is_kept_in_the_position(self) -> None:
        asked = log({T0: [0, 10, 40, 50], T1: [0, 10, 20]}, {T0: 2})
        found = decide(asked, history(20), on_gap="accept")
        assert starts(found) == {T0: 2, T1: 2}
        assert found.gaps == gaps(asked, history(20))
        assert StartPosition.parse(found.model_dump_json().encode()) == found

    def test_waiting_for_more_files_does_not_accept_a_gap(self) -> None:
        assert gaps(log({T0: [0, 40]}, {T0: 1}), history(20), on_gap="extend")

    def test_without_history_the_time_asked_for_must_be_reached(self) -> None:
        asked = log({T0: [0, 10, 40]}, {T0: 2})
        fixed = {"timestamp": "2024-01-01T12:00:20Z"}
        assert refused(asked, None, start=fixed, schema={"id": "bigint"}) == (
            "Topic `t`, partition 0: the log starts at offset 2, 2024-01-01T12:00:40Z; the first "
            "record asked for is at 2024-01-01T12:00:20Z; the 20 s between are in neither."
            + WAY_OUT
        )


class TestWhatCameAfterTheListing:
    """No file holds it, however late it is against the time that history reaches."""

    def test_a_start_by_time_is_never_beyond_it(self) -> None:
        # The record of second 60 of partition 1 was appended when history had been listed.
        asked = log({T0: [100], T1: [50, 60, 110]})
        found = decide(asked, history(100), listed={T0: 1, T1: 1})
        assert starts(found) == {T0: 0, T1: 1}
        reason = "log end when history was listed: nothing later is in the files"
        assert found.partitions[T1].reason == reason

    def test_a_partition_that_was_added_since_is_read_from_its_first_record(self) -> None:
        # All records of partition 1 were appended when history had been listed.
        asked = log({T0: [100], T1: [50, 60, 110]})
        assert starts(decide(asked, history(100), listed={T0: 1})) == {T0: 0, T1: 0}

    def test_a_topic_that_did_not_exist_then_is_read_from_its_first_record(self) -> None:
        found = decide(log({T0: [50, 110]}), history(100), missing_topic="wait")
        assert starts(found) == {T0: 0}
        with pytest.raises(GapError, match="the log starts at offset 1"):
            decide(log({T0: [50, 110]}, {T0: 1}), history(100), missing_topic="wait")
        held = holds({})
        assert starts(decide(log({T0: [50]}), held, missing_topic="wait")) == {T0: 0}

    def test_its_deletion_is_a_gap(self) -> None:
        with pytest.raises(GapError) as caught:
            decide(log({T0: [50, 60, 70, 110]}, {T0: 2}), history(100), listed={T0: 1})
        assert any(gap.from_offset == 1 for gap in caught.value.gaps)

    @pytest.mark.parametrize(
        "declared",
        [
            {"start": {"timestamp": "2024-01-01T12:01:40Z"}},
            {"start": {"ago": "20 s"}, "now": 120},
            {"user": lambda _: NOON + timedelta(seconds=100)},
        ],
        ids=["timestamp", "ago", "factory"],
    )
    def test_a_declared_time_is_capped_in_the_same_way(self, declared: dict[str, Any]) -> None:
        # The records of seconds 50 and 60 were appended when history had been listed.
        asked = log({T0: [90, 50, 60, 110]})
        found = decide(asked, history(100), listed={T0: 1}, **declared)
        assert (starts(found), found.time_ms) == ({T0: 1}, ms(100))
        reason = "log end when history was listed: nothing later is in the files"
        assert found.partitions[T0].reason == reason

    def test_without_history_a_declared_time_is_taken_as_it_is(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:01:40Z"}
        asked = log({T0: [90, 50, 60, 110]})
        assert starts(decide(asked, None, listed={T0: 1}, start=fixed)) == {T0: 3}


class TestALogThatIsDeletedMeanwhile:
    def test_the_start_is_never_before_the_log_start(self) -> None:
        # The look-up says 2; from the next one on the log starts at 3.
        moving = ChangingLog(log({T0: [0, 10, 20, 30]}), [nothing, deleting_to(3)])
        found = decide(moving, history(20), on_gap="accept")
        assert (starts(found), len(found.gaps)) == ({T0: 3}, 1)

    @pytest.mark.parametrize("answers", range(8))
    def test_whenever_it_happens_it_is_noticed_before_the_launch(self, answers: int) -> None:
        moving = ChangingLog(log({T0: [0, 10, 25, 30]}), [nothing] * answers + [deleting_to(3)])
        with pytest.raises((SeamError, InputError)):
            launch(moving)

    @pytest.mark.parametrize("answers", range(8))
    def test_the_record_that_gives_a_gap_away_may_go_meanwhile(self, answers: int) -> None:
        # The record of second 20 is deleted and in no file; the one of second 18, its only trace,
        # goes while we look. What is left seems to reach back far enough.
        moving = ChangingLog(
            log({T0: [0, 20, 18, 16, 30]}, {T0: 2}), [nothing] * answers + [deleting_to(3)]
        )
        with pytest.raises((SeamError, InputError)):
            launch(moving, lateness=5)


class TestDeletedOnDemand:
    """Kafka's DeleteRecords moves the log start; the files stay until they can go as a whole.

    A look-up by time still settles for the first file that had such a timestamp, and answers
    "none" if the record is deleted, whatever later files hold.
    """

    def test_no_answer_is_not_the_end_of_an_accepted_gap(self) -> None:
        asked = log({T0: [20, 30, 40, 50]}, {T0: 1}, segments={T0: [0, 1]})
        assert asked.offsets_for_time(ms(20)) == {T0: None}
        found = decide(asked, history(20), on_gap="accept")
        assert (starts(found), len(found.gaps)) == ({T0: 1}, 1)

    def test_no_answer_because_of_a_control_record_skips_nothing(self) -> None:
        asked = log(
            {T0: {0: 0, 2: 10, 4: 20, 6: 30}},
            {T0: 2},
            markers={T0: [(1, ms(500))]},
            segments={T0: [0, 2]},
        )
        assert asked.offsets_for_time(ms(20)) == {T0: None}
        assert starts(decide(asked, history(20)))[T0] <= 4

    def test_no_answer_does_not_hide_what_a_later_time_leaves_out(self) -> None:
        asked = log(
            {T0: {0: 0, 2: 10, 4: 20, 6: 30}},
            {T0: 2},
            markers={T0: [(1, ms(25))]},
            segments={T0: [0, 2]},
        )
        assert asked.offsets_for_time(ms(20)) == {T0: None}
        (gap,) = gaps(asked, history(20), start={"timestamp": "2024-01-01T12:00:30Z"})
        assert gap.to_offset == 6

    def test_a_newest_record_of_just_that_time_is_not_skipped(self) -> None:
        # Only its timestamp tells that there are later ones.
        asked = log({T0: [20, 10, 20]}, {T0: 1}, segments={T0: [0, 1]})
        assert (asked.offsets_for_time(ms(20)), asked.newest_ms()) == ({T0: None}, {T0: ms(20)})
        assert starts(decide(asked, history(20))) == {T0: 1}


class TestAnOpenTransaction:
    """What lies in it or after it is not told, and will be read once it has ended."""

    def test_a_partition_starts_there_at_the_latest(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, open_from={T0: 2})
        assert starts(decide(asked, history(5))) == {T0: 1}
        assert starts(decide(asked, history(20))) == {T0: 2}
        assert starts(decide(asked, history(40))) == {T0: 2}

    def test_it_may_hold_the_newest_record(self) -> None:
        # After DeleteRecords neither the look-up nor the question for the newest record helps.
        asked = log({T0: [20, 30, 40, 50]}, {T0: 1}, segments={T0: [0, 1]}, open_from={T0: 3})
        assert (asked.offsets_for_time(ms(20)), asked.newest_ms()) == ({T0: None}, {T0: None})
        found = decide(asked, history(20), on_gap="accept")
        assert (starts(found), len(found.gaps)) == ({T0: 1}, 1)

    def test_offsets_that_lie_in_it_are_refused(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, open_from={T0: 2})
        refusal = refused(asked, history(30), start={"offsets": {0: 3}})
        assert "start offset 3 is beyond the log end 2" in refusal


class TestAFixedTime:
    def test_the_time_written_is_looked_up(self) -> None:
        fixed = {"timestamp": "2024-01-01T13:00:10+01:00"}
        found = decide(log({T0: [0, 10, 20]}), history(20), start=fixed)
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 1}, "fixed", ms(10))

    def test_later_than_history_is_fine_where_nothing_lies_between(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:00:25Z"}
        found = decide(log({T0: [0, 10, 30]}), history(20), start=fixed)
        assert (starts(found), found.gaps) == ({T0: 2}, [])

    def test_later_than_history_is_fine_where_all_that_is_left_is_older(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:00:25Z"}
        found = decide(log({T0: [0, 10, 15]}, {T0: 1}), history(20), start=fixed)
        assert (starts(found), found.gaps) == ({T0: 3}, [])

    def test_later_than_history_is_refused_where_a_record_lies_between(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:00:25Z"}
        asked = log({T0: [0, 10, 30], T1: [0, 20, 24, 30]})
        (gap,) = gaps(asked, history(20), start=fixed)
        assert (gap.partition, gap.from_offset, gap.to_offset) == (1, 1, 3)
        found = decide(asked, history(20), start=fixed, on_gap="accept")
        assert (starts(found), found.gaps) == ({T0: 2, T1: 3}, [gap])

    def test_without_history_nothing_lies_between(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:00:25Z"}
        assert starts(decide(log({T0: [0, 30]}), None, start=fixed)) == {T0: 1}

    def test_ago_is_counted_from_the_time_of_the_hand_over(self) -> None:
        asked = log({T0: [0, 10, 20, 30]})
        found = decide(asked, history(20), start={"ago": "15 seconds"}, now=30)
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 2}, "fixed", ms(15))

    def test_ago_is_exact_to_the_millisecond(self) -> None:
        found = decide(log({T0: [0, 30]}), None, start={"ago": "1001 ms"}, now=30)
        assert found.time_ms == ms(30) - 1001

    def test_the_epoch_stands_for_everything(self) -> None:
        fixed = {"timestamp": "1970-01-01T00:00:00Z"}
        assert starts(decide(log({T0: [0]}), None, start=fixed, lateness=60)) == {T0: 0}
        (gap,) = gaps(log({T0: [0, 10]}, {T0: 1}), None, start=fixed, lateness=60)
        assert (gap.from_ms, gap.to_ms) == (0, ms(10))


class TestEarliest:
    def test_it_is_the_first_record_that_is_left(self) -> None:
        asked = log({T0: [0, 10, 20, 30], T1: [5, 6]}, {T0: 1})
        found = decide(asked, history(20), start="earliest")
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 1, T1: 0}, "fixed", None)

    def test_it_is_refused_where_the_log_begins_after_history(self) -> None:
        (gap,) = gaps(log({T0: [0, 10, 30]}, {T0: 2}), history(20), start="earliest")
        assert (gap.from_ms, gap.to_ms) == (ms(20), ms(30))

    def test_without_history_there_is_nothing_to_reach_back_to(self) -> None:
        found = decide(log({T0: [0, 10, 30]}, {T0: 2}), None, start="earliest")
        assert (starts(found), found.gaps) == ({T0: 2}, [])


class TestFixedOffsets:
    TWO = log({T0: [0, 10, 20], T1: [0, 10, 20, 30]})

    def test_one_topic_needs_no_name(self) -> None:
        found = decide(self.TWO, history(20), start={"offsets": {0: 1, 1: 2}})
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 1, T1: 2}, "fixed", None)
        assert found.partitions[T1] == PartitionStart(
            start=2, log_start=0, log_end=4, reason="declared"
        )

    def test_a_log_from_its_first_record_on_lacks_nothing_however_late_it_begins(self) -> None:
        found = decide(log({T0: [86_400]}), history(0), now=2e5, start={"offsets": {0: 0}})
        assert (starts(found), found.gaps) == ({T0: 0}, [])

    def test_a_topic_may_be_named(self) -> None:
        found = decide(self.TWO, history(20), start={"offsets": {"t": {0: 1, 1: 2}}})
        assert starts(found) == {T0: 1, T1: 2}

    def test_several_topics_are_named(self) -> None:
        asked = log({T0: [0, 10], U0: [0, 10]})
        named = {"offsets": {"t": {0: 1}, "u": {0: 2}}}
        assert starts(decide(asked, history(20), start=named)) == {T0: 1, U0: 2}

    @pytest.mark.parametrize(
        ("offsets", "text"),
        [
            ({0: 1}, "topic `t`, partition 1 has no offset"),
            ({0: 1, 1: 1, 2: 1}, "there is no topic `t`, partition 2"),
            (
                {0: 1, 7: 1},
                "topic `t`, partition 1 has no offset; there is no topic `t`, partition 7",
            ),
            ({"t": {0: 1, 1: 1}, "u": {0: 1}}, "there is no topic `u`, partition 0"),
            ({"u": {0: 1, 1: 1}}, "topic `t`, partition 0 has no offset; there is no topic `u`"),
        ],
    )
    def test_they_name_exactly_the_partitions_there_are(
        self, offsets: dict[Any, Any], text: str
    ) -> None:
        refusal = refused(self.TWO, history(20), start={"offsets": offsets})
        assert refusal.startswith(f"The start offsets of source `live`: {text}")
        hint = (
            "Give one offset for each partition, numbered from 0, and for no other: `t` has 2 "
            "partitions."
        )
        assert refusal.endswith(hint)

    def test_the_end_of_the_log_may_be_the_start_but_nothing_beyond(self) -> None:
        found = decide(self.TWO, history(30), start={"offsets": {0: 3, 1: 4}})
        assert starts(found) == {T0: 3, T1: 4}
        assert refused(self.TWO, history(30), start={"offsets": {0: 3, 1: 5}}) == (
            "Topic `t`, partition 1: start offset 5 is beyond the log end 4. The offset was "
            f"decided by: declared. {BEYOND_THE_END}"
        )

    def test_an_offset_that_is_deleted_is_refused(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, {T0: 3})
        assert refused(asked, history(30), start={"offsets": {0: 1}}) == (
            "Topic `t`, partition 0: start offset 1 is before the log start 3: 2 offsets lost, "
            "which Kafka deleted. Their rows would be missing from the table. The offset was "
            f"decided by: declared. {BEFORE_THE_START}"
        )


class TestOffsetsThatHistoryHolds:
    def test_each_partition_starts_after_its_last_record(self) -> None:
        found = decide(log({T0: [0, 10, 20], T1: [0, 10]}), holds({T0: 1, T1: 2}))
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 1, T1: 2}, "offsets", None)
        assert found.partitions[T0] == PartitionStart(
            start=1, log_start=0, log_end=3, reason="history holds its records up to offset 0"
        )

    def test_times_are_not_asked_for(self) -> None:
        asked = ChangingLog(log({T0: [0, 10]}), [])
        decide(asked, holds({T0: 1}))
        assert "offsets_for_time" not in asked.asked

    def test_a_partition_that_was_never_archived_is_read_from_its_beginning(self) -> None:
        found = decide(log({T0: [0], T1: [0, 10]}), holds({T0: 1}))
        assert (starts(found), found.gaps) == ({T0: 1, T1: 0}, [])
        assert found.partitions[T1].reason == "history holds none of its records: log start"

    def test_a_partition_that_was_never_archived_must_be_whole(self) -> None:
        asked = log({T0: [0], T1: [0, 10, 20]}, {T1: 2})
        assert refused(asked, holds({T0: 1})) == (
            "Topic `t`, partition 1: history holds none of its records: log start; the log starts "
            "at offset 2." + WAY_OUT
        )
        (gap,) = gaps(asked, holds({T0: 1}))
        assert (gap.partition, gap.from_offset, gap.to_offset) == (1, 0, 2)

    def test_what_was_deleted_behind_history_is_a_gap(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, {T0: 3})
        assert refused(asked, holds({T0: 2})) == (
            "Topic `t`, partition 0: history holds its records up to offset 1; the log starts at "
            "offset 3." + WAY_OUT
        )
        found = decide(asked, holds({T0: 2}), on_gap="accept")
        (gap,) = found.gaps
        assert (starts(found), gap.from_offset, gap.to_offset) == ({T0: 3}, 2, 3)

    def test_the_log_may_begin_right_behind_history(self) -> None:
        found = decide(log({T0: [0, 10, 20]}, {T0: 2}), holds({T0: 2}))
        assert (starts(found), found.gaps) == ({T0: 2}, [])

    def test_a_hole_that_the_log_still_has_a_record_in_is_a_gap(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40]})
        holed = holds({T0: 4}, {T0: [(1, 2), (2, 3)]})
        assert refused(asked, holed) == (
            "Topic `t`, partition 0: history holds later records, but not the one at "
            "offset 1." + WAY_OUT
        )
        (gap,) = gaps(asked, holed)
        assert (gap.from_offset, gap.to_offset) == (1, 2)
        found = decide(asked, holed, on_gap="accept")
        assert (starts(found), found.gaps) == ({T0: 4}, [gap])

    def test_a_hole_of_control_records_is_none(self) -> None:
        asked = log({T0: {0: 0, 1: 10, 3: 20, 5: 30}}, markers={T0: [(2, ms(11)), (4, ms(21))]})
        found = decide(asked, holds({T0: 4}, {T0: [(2, 3)]}))
        assert (starts(found), found.gaps) == ({T0: 4}, [])

    def test_a_hole_is_looked_at_as_far_as_the_log_reaches(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40, 50]}, {T0: 3})
        found, unknown = gaps(asked, holds({T0: 5}, {T0: [(1, 4)]}))
        assert (found.from_offset, found.to_offset) == (3, 4)
        assert (unknown.from_offset, unknown.to_offset) == (1, 3)

    def test_a_hole_of_offsets_that_kafka_has_deleted_is_a_gap_between_two_files(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40, 50]}, {T0: 4})
        holed = holds({T0: 5}, {T0: [(1, 3)]}, beside={T0: [("a.parquet", "b.parquet")]})
        assert refused(asked, holed) == (
            "Topic `t`, partition 0: history holds later records, but not offsets 1 to 2 (between "
            "files a.parquet and b.parquet). Kafka has deleted them, so nothing shows whether they "
            "were records." + WAY_OUT
        )
        found = decide(asked, holed, on_gap="accept")
        (gap,) = found.gaps
        assert (starts(found), gap.from_offset, gap.to_offset) == ({T0: 5}, 1, 3)

    def test_of_several_deleted_holes_the_first_is_named_and_the_others_counted(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40, 50]}, {T0: 5})
        (gap,) = gaps(asked, holds({T0: 6}, {T0: [(1, 2), (3, 4)]}))
        assert "but not offsets 1 to 1 (and 1 more such holes)." in gap.why
        assert (gap.from_offset, gap.to_offset) == (1, 2)
        (gap,) = gaps(asked, holds({T0: 6}, {T0: [(1, 2)]}))
        assert "more such holes" not in gap.why

    def test_what_lies_before_the_first_record_of_history_is_no_hole(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40, 50]}, {T0: 4})
        assert decide(asked, holds({T0: 5}, {T0: [(0, 3)]})).gaps == []

    def test_a_hole_that_the_plan_could_look_into_stays_none_when_kafka_deletes_its_offsets(
        self,
    ) -> None:
        records, markers = {0: 0, 1: 10, 3: 20, 5: 30}, [(2, ms(11)), (4, ms(21))]
        end = holds({T0: 4}, {T0: [(2, 3)]})
        planned = decide(log({T0: records}, markers={T0: markers}), end)
        later = log({T0: records}, {T0: 4}, markers={T0: markers})
        assert decide(later, end, expected=planned).gaps == []
        assert gaps(later, end)
        # Nobody looked into a hole of a file that arrived after the plan.
        newer = holds({T0: 6}, {T0: [(2, 3), (4, 5)]})
        (gap,) = gaps(log({T0: records}, {T0: 6}), newer, expected=planned)
        assert (gap.from_offset, gap.to_offset) == (4, 5)

    def test_compaction_leaves_holes(self) -> None:
        asked = log({T0: [0, 10, 20, 30, 40]}, {T0: 4}, compacted_topics=frozenset({"t"}))
        assert decide(asked, holds({T0: 5}, {T0: [(1, 3)]})).gaps == []

    def test_what_files_only_suggest_can_lower_a_start_but_not_raise_it(self) -> None:
        # History is complete through second 0 by time.
        found = decide(log({T0: [0, 10, 20]}), holds({T0: 2}, exact=False))
        assert (starts(found), found.evidence) == ({T0: 0}, "offsets")
        lags = holds({T0: 1}, exact=False).model_copy(update={"complete_through_ms": ms(20)})
        found = decide(log({T0: [0, 10, 20]}), lags)
        assert starts(found) == {T0: 1}
        reason = "the files suggest that they end before offset 1"
        assert found.partitions[T0].reason == reason

    def test_a_partition_of_which_files_suggest_nothing_is_read_from_its_first_record(self) -> None:
        asked = log({T0: [0, 10], T1: [0, 10, 20]})
        suggested = holds({T0: 2}, exact=False).model_copy(update={"complete_through_ms": ms(10)})
        assert starts(decide(asked, suggested)) == {T0: 1, T1: 0}

    def test_what_was_deleted_behind_the_suggested_end_is_a_gap(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, {T0: 2})
        suggested = holds({T0: 1}, exact=False).model_copy(update={"complete_through_ms": ms(30)})
        found = decide(asked, suggested, on_gap="accept")
        assert starts(found) == {T0: 2}
        assert [(gap.from_offset, gap.to_offset) for gap in found.gaps] == [(1, 2)]

    def test_a_history_that_is_ahead_of_the_log_is_not_of_this_log(self) -> None:
        assert refused(log({T0: [0, 10]}), holds({T0: 3})) == (
            "Topic `t`, partition 0: start offset 3 is beyond the log end 2. The offset was "
            f"decided by: history holds its records up to offset 2. {BEYOND_THE_END}"
        )

    def test_a_history_of_other_topics_says_nothing_of_these(self) -> None:
        # Were it taken at its word, all of the topic would be read, and nothing told apart.
        with pytest.raises(SeamError):
            decide(log({T0: [0, 10]}), holds({U0: 2}))

    def test_better_evidence_does_not_stand_in_the_way_of_a_fixed_start(self) -> None:
        found = decide(log({T0: [0, 10, 20]}), holds({T0: 2}), start={"offsets": {0: 1}})
        assert (starts(found), found.evidence) == ({T0: 1}, "fixed")


class TestASnapshot:
    def test_its_log_position_does_not_tell_where_the_topic_starts_but_its_time_does(self) -> None:
        found = decide(log({T0: [0, 10, 20, 30]}), history(20, sequence=99))
        assert (starts(found), found.evidence, found.time_ms) == ({T0: 2}, "sequence", ms(20))

    def test_the_topic_must_reach_back_to_it(self) -> None:
        assert gaps(log({T0: [0, 10, 40]}, {T0: 2}), history(20, sequence=99))

    def test_offsets_are_better(self) -> None:
        held = HeldOffsets(next={T0: 1}, exact=True, holes={})
        found = decide(log({T0: [0, 10, 20]}), history(20, sequence=99, offsets=held))
        assert (starts(found), found.evidence) == ({T0: 1}, "offsets")


class TestTheUsersFactory:
    TWO = log({T0: [0, 10, 20], T1: [0, 10, 20, 30]})

    def test_it_is_given_the_end_of_history_and_the_log(self) -> None:
        seen: list[SourceSwitchContext] = []

        def user(context: SourceSwitchContext) -> datetime:
            seen.append(context)
            return NOON

        decide(self.TWO, history(20), user=user)
        assert seen == [SourceSwitchContext(history(20), self.TWO)]

    def test_a_time_is_looked_up(self) -> None:
        found = decide(self.TWO, history(20), user=lambda _: NOON + timedelta(seconds=10))
        assert (starts(found), found.evidence, found.time_ms) == (
            {T0: 1, T1: 1},
            "factory",
            ms(10),
        )

    def test_a_time_is_held_to_what_holds_for_a_fixed_one(self) -> None:
        late = NOON + timedelta(seconds=25)
        assert [gap.partition for gap in gaps(self.TWO, history(15), user=lambda _: late)] == [0, 1]
        assert "in the future" in refused(self.TWO, history(15), user=lambda _: late, now=24)

    def test_offsets_are_taken_as_a_declaration_takes_them(self) -> None:
        found = decide(self.TWO, history(20), user=lambda _: {0: 1, 1: 2})
        assert (starts(found), found.evidence) == ({T0: 1, T1: 2}, "factory")
        named = decide(self.TWO, history(20), user=lambda _: {"t": {"0": 1, "1": 2}})
        assert starts(named) == {T0: 1, T1: 2}

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            ({}, "topic `t`, partition 0 has no offset"),
            ({0: 1}, "topic `t`, partition 1 has no offset"),
            ({0: -5, 1: 0}, "partition 0: start offset -5 is before the log start 0"),
            ({0: 4, 1: 0}, "partition 0: start offset 4 is beyond the log end 3"),
        ],
    )
    def test_offsets_must_be_those_of_the_log(self, answer: Any, text: str) -> None:
        assert text in refused(self.TWO, history(20), user=lambda _: answer)

    @pytest.mark.parametrize(
        "answer",
        [
            17,
            None,
            "2024-01-01T12:00:00Z",
            [1, 2],
            {"x": 1},
            {"t": [1, 2]},
            {0: "soon", 1: 2},
            {0: 1.5, 1: 2},
            {T0: 1, T1: 2},
            NOON.replace(tzinfo=None),
        ],
    )
    def test_nonsense_is_refused_by_name(self, answer: Any) -> None:
        assert refused(self.TWO, history(20), user=lambda _: answer) == (
            f"`start.factory: mine:start` returned {answer!r}, which is neither a datetime with a "
            "time zone nor an offset for each partition. Let the function return a datetime with a "
            "time zone, or offsets by partition, such as {0: 17, 1: 4}; then try again."
        )

    def test_what_it_raises_is_not_covered_up(self) -> None:
        def user(_: SourceSwitchContext) -> Any:
            raise KeyError("watermarks")

        assert refused(self.TWO, history(20), user=user) == (
            "`start.factory: mine:start` raised KeyError: 'watermarks'. Correct the function "
            "`mine:start`, then try again: no start was decided."
        )

    def test_a_broker_that_fails_meanwhile_is_not_its_fault(self) -> None:
        class Gone(ModelLog):
            def log_end(self) -> dict[TopicPartition, int]:
                raise UnavailableError("The Kafka broker can't be reached.", "Start it.")

        with pytest.raises(UnavailableError, match="can't be reached"):
            decide(Gone(self.TWO.records), history(20), user=lambda _: {0: 1, 1: 2})


class TestWhatHasToStayUntilTheHandOver:
    """While history is read, retention must not reach what the hand-over will ask for."""

    TWO = log({T0: [0, 10, 20, 30], T1: [15, 16, 40]})

    @pytest.mark.parametrize("lateness", [0, 5])
    @pytest.mark.parametrize("through", [12, 20, 35])
    def test_as_long_as_it_is_there_the_hand_over_is_made(
        self, through: int, lateness: int
    ) -> None:
        asked, end = log({T0: [0, 10, 20, 30], T1: [0, 15, 16, 40]}), history(through)
        found = decide(asked, end, lateness=lateness)
        asked.deleted_to = needed_offsets(asked, found, end, lateness * 1000)
        assert decide(asked, end, lateness=lateness).gaps == []

    def test_it_reaches_back_by_as_much_as_records_come_late(self) -> None:
        found = decide(self.TWO, history(20), lateness=5)
        assert starts(found) == {T0: 2, T1: 2}
        assert needed_offsets(self.TWO, found, history(20), 5000)[T1] == 0

    def test_it_is_never_what_is_gone_by_now(self) -> None:
        # The look-up by time is answered with a control record, at which the log begins.
        asked = log({T0: {0: 0, 2: 10, 3: 30}}, {T0: 1}, markers={T0: [(1, ms(500))]})
        found = decide(asked, history(20))
        assert starts(found) == {T0: 1}
        assert needed_offsets(asked, found, history(20), 0) == {T0: 1}

    def test_it_reaches_back_from_history_not_from_a_later_time(self) -> None:
        fixed = {"timestamp": "2024-01-01T12:00:40Z"}
        found = decide(self.TWO, history(20), start=fixed, on_gap="accept")
        assert starts(found) == {T0: 4, T1: 2}
        assert needed_offsets(self.TWO, found, history(20), 0)[T0] <= 2

    def test_it_is_never_beyond_the_start(self) -> None:
        quiet = log({T0: [0, 10]})
        assert needed_offsets(quiet, decide(quiet, history(20)), history(20), 0)[T0] <= 2

    def test_offsets_reach_back_no_further_than_they_say(self) -> None:
        found = decide(self.TWO, holds({T0: 2, T1: 1}))
        assert needed_offsets(self.TWO, found, history(0), 5000) == {T0: 2, T1: 1}


class TestJustBeforeTheLaunch:
    STARTED = StartPosition(
        source="live",
        evidence="fixed",
        time_ms=None,
        partitions={
            T0: PartitionStart(start=5, log_start=0, log_end=9, reason="test"),
            T1: PartitionStart(start=0, log_start=0, log_end=0, reason="test"),
        },
    )

    def refusal(self, log_start: dict[Any, int], log_end: dict[Any, int]) -> str:
        with pytest.raises(SeamError) as caught:
            check_in_log(self.STARTED, log_start, log_end)
        return str(caught.value)

    @pytest.mark.parametrize(("first", "end"), [(0, 9), (5, 9), (0, 5), (5, 5)])
    def test_a_start_that_the_log_holds_is_fine(self, first: int, end: int) -> None:
        check_in_log(self.STARTED, {T0: first, T1: 0}, {T0: end, T1: 0})

    def test_partitions_that_appeared_are_none_of_its_business(self) -> None:
        check_in_log(self.STARTED, {T0: 0, T1: 0, U0: 0}, {T0: 9, T1: 0, U0: 3})

    def test_what_was_deleted_is_counted(self) -> None:
        assert self.refusal({T0: 7, T1: 0}, {T0: 9, T1: 0}) == (
            "Topic `t`, partition 0: start offset 5 is before the log start 7: 2 offsets lost, "
            "which Kafka deleted. Their rows would be missing from the table. The offset was "
            f"decided by: test. {BEFORE_THE_START}"
        )

    def test_a_topic_that_is_shorter_now_was_made_anew(self) -> None:
        assert self.refusal({T0: 0, T1: 0}, {T0: 4, T1: 0}) == (
            "Topic `t`, partition 0: start offset 5 is beyond the log end 4. The offset was "
            f"decided by: test. {BEYOND_THE_END}"
        )

    def test_a_partition_that_is_gone_is_named(self) -> None:
        assert self.refusal({T0: 0}, {T0: 9}) == (
            "Topic `t`, partition 1: start offset 0 was decided (test), but the partition does "
            "not exist any more: the topic was deleted or created again, or `bootstrap_servers` "
            "leads to another cluster. Correct `bootstrap_servers`; for a new topic, begin a new "
            "generation: `hybrid generation new P`, which computes the whole table again "
            "next to the one that serves."
        )
