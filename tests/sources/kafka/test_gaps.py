"""Ends of history that mean nothing, and holes before a start that people fixed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sources.errors import SeamError
from sources.kafka.start.declared_start import GapError
from tests.properties import examples
from tests.sources.kafka.test_start_offsets import (
    NOON,
    T0,
    T1,
    decide,
    gaps,
    history,
    holds,
    log,
    ms,
    refused,
    starts,
)

HOUR = 3600.0
DAY = 24 * HOUR
YEAR_2099 = (datetime(2099, 1, 1, tzinfo=UTC) - NOON).total_seconds()
FIXED: dict[str, dict[str, Any]] = {
    "earliest": {"start": "earliest"},
    "timestamp": {"start": {"timestamp": "2024-01-01T12:00:00Z"}},
    "ago": {"start": {"ago": "1 h"}},
    "factory": {"user": lambda _: NOON},
    "offsets": {"start": {"offsets": {0: 2}}},
    "factory of offsets": {"user": lambda _: {0: 2}},
}
MEND = "Declare `complete_through` for source `history`"


@pytest.mark.parametrize("name", FIXED)
class TestOneRowOfYear2099:
    """History ends at second 20, but for one row; the log starts at second 2,000."""

    HOLED = log({T0: [0, 10, 2000, 2010]}, {T0: 2})

    def test_it_does_not_hide_a_hole_before_a_fixed_start(self, name: str) -> None:
        wrong = history(YEAR_2099)
        with pytest.raises(GapError) as caught:
            decide(self.HOLED, wrong, **FIXED[name])
        assert "in the future" in caught.value.message
        assert MEND in caught.value.hint
        assert caught.value.fields["field"] == "complete_through"

    def test_the_field_that_is_named_mends_it(self, name: str) -> None:
        mended = history(2005, event_time_ms=ms(YEAR_2099))
        found = decide(self.HOLED, mended, is_declared=True, **FIXED[name])
        assert (starts(found), found.gaps) == ({T0: 2}, [])

    def test_it_is_accepted_on_demand(self, name: str) -> None:
        found = decide(self.HOLED, history(YEAR_2099), on_gap="accept", **FIXED[name])
        assert starts(found) == {T0: 2}
        assert found.gaps[0].partition == 0

    def test_nothing_is_lost_of_a_topic_that_is_read_from_its_first_offset(self, name: str) -> None:
        declared = dict(FIXED[name])
        if "offsets" in name:
            declared = {"start": {"offsets": {0: 0}}}
        found = decide(log({T0: [0, 10, 2000]}), history(YEAR_2099), **declared)
        assert (starts(found), found.gaps) == ({T0: 0}, [])


class TestAnEndLongAfterTheTopic:
    """No clock is ahead of ours, but nothing of the topic is as late as history claims to be."""

    TOPIC = log({T0: [0, 10, 20], T1: [5, 15]})

    def test_all_in_between_would_be_skipped_so_it_is_refused(self) -> None:
        text = refused(self.TOPIC, history(2 * DAY), now=3 * DAY)
        assert text.startswith(
            "Topic `t`, partition 0: history, which ends at 2024-01-03T12:00:00Z, would be "
            "complete through 2024-01-03T12:00:00Z, but the newest record of the topic is of "
            "2024-01-01T12:00:20Z. So nothing shows that history holds the records before offset "
            "3, where reading would start (and 1 more of this kind)."
        )
        assert MEND in text

    def test_history_may_be_ahead_by_an_hour_or_by_the_lateness(self) -> None:
        assert decide(self.TOPIC, history(HOUR), now=DAY).gaps == []
        assert gaps(self.TOPIC, history(HOUR + 21), now=DAY)
        assert decide(self.TOPIC, history(2 * HOUR), now=DAY, lateness=2 * HOUR).gaps == []

    def test_a_declared_time_is_believed(self) -> None:
        found = decide(self.TOPIC, history(2 * DAY), now=3 * DAY, is_declared=True)
        assert (starts(found), found.gaps) == ({T0: 3, T1: 2}, [])

    def test_but_not_if_it_lies_in_the_future(self) -> None:
        with pytest.raises(SeamError) as caught:
            decide(self.TOPIC, history(2 * DAY), now=DAY, is_declared=True)
        assert caught.value.fields["field"] == "complete_through"

    def test_clocks_of_control_records_prove_nothing(self) -> None:
        asked = log({T0: {0: 0, 1: 10}}, markers={T0: [(2, ms(5 * DAY))]})
        assert gaps(asked, history(2 * DAY), now=9 * DAY)

    def test_an_empty_topic_is_fine(self) -> None:
        assert decide(log({T0: []}), history(2 * DAY), now=3 * DAY).gaps == []

    def test_a_topic_that_begins_after_history_is_fine(self) -> None:
        found = decide(log({T0: [3 * DAY, 4 * DAY]}), history(2 * DAY), now=9 * DAY)
        assert (starts(found), found.gaps) == ({T0: 0}, [])

    def test_exact_offsets_need_no_times(self) -> None:
        held = holds({T0: 3, T1: 2}).model_copy(update={"complete_through_ms": ms(YEAR_2099)})
        assert decide(self.TOPIC, held).gaps == []

    def test_latest_says_itself_that_it_skips(self) -> None:
        assert decide(self.TOPIC, history(YEAR_2099), start="latest").gaps == []


class TestFixedOffsetsAndTheEndOfHistory:
    TOPIC = log({T0: [0, HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR]})

    def test_a_record_long_after_history_that_they_leave_out_is_a_gap(self) -> None:
        (gap,) = gaps(self.TOPIC, history(0), start={"offsets": {0: 4}}, now=DAY)
        assert (gap.from_offset, gap.to_offset) == (2, 4)

    def test_an_hour_after_the_end_of_history_is_close_and_a_millisecond_more_is_not(self) -> None:
        for second, count in ((HOUR, 0), (HOUR + 0.001, 1)):
            asked = log({T0: [0, second, 2 * second]})
            found = decide(asked, history(0), start={"offsets": {0: 2}}, now=DAY, on_gap="accept")
            assert len(found.gaps) == count
            # So it is where the log begins with that record.
            asked = log({T0: [0, second, second]}, {T0: 1})
            found = decide(asked, history(0), start={"offsets": {0: 1}}, now=DAY, on_gap="accept")
            assert len(found.gaps) == count

    def test_they_may_leave_out_a_partition_of_which_history_holds_nothing(self) -> None:
        (gap,) = gaps(log({T0: [0, 10], T1: [5]}), holds({T0: 2}), start={"offsets": {0: 2, 1: 1}})
        assert (gap.partition, gap.from_offset, gap.to_offset) == (1, 0, 1)
        assert gap.why == "history holds none of its records; the start would be offset 1"

    def test_records_of_aborted_transactions_that_they_leave_out_are_no_gap(self) -> None:
        # Kafka's look-ups by time find what was taken back, and nobody ever reads it.
        aborted = {T0: [(1, ms(2 * HOUR)), (2, ms(2 * HOUR))]}
        asked = log({T0: {0: 0, 3: 3 * HOUR, 4: 4 * HOUR}}, markers=aborted)
        assert decide(asked, history(0), start={"offsets": {0: 3}}, now=DAY).gaps == []
        (gap,) = gaps(asked, history(0), start={"offsets": {0: 4}}, now=DAY)
        assert (gap.from_offset, gap.to_offset) == (3, 4)
        late = log({T0: {0: 0, 3: 60, 4: 70, 5: 3 * HOUR, 6: 4 * HOUR}}, markers=aborted)
        assert decide(late, history(70), start={"offsets": {0: 5}}, now=DAY).gaps == []
        (gap,) = gaps(late, history(70), start={"offsets": {0: 6}}, now=DAY)
        assert (gap.from_offset, gap.to_offset) == (5, 6)

    def test_the_mark_of_a_commit_that_has_the_time_of_the_broker_is_no_gap(self) -> None:
        asked = log({T0: {0: 0, 2: 0, 3: 60}}, markers={T0: [(1, ms(DAY))]})
        assert decide(asked, history(0), start={"offsets": {0: 3}}, now=DAY).gaps == []

    def test_a_declared_time_behind_an_aborted_transaction_leaves_out_nothing(self) -> None:
        asked = log({T0: {0: -60, 3: 3 * HOUR}}, markers={T0: [(1, ms(HOUR)), (2, ms(HOUR))]})
        start = {"timestamp": "2024-01-01T14:00:00Z"}
        assert starts(decide(asked, history(0), start=start, now=DAY)) == {T0: 3}

    def test_they_are_believed_where_times_are_close(self) -> None:
        assert decide(self.TOPIC, history(0), start={"offsets": {0: 2}}, now=DAY).gaps == []

    def test_records_between_history_and_a_log_that_starts_later_may_be_deleted(self) -> None:
        asked = log({T0: [0, HOUR, 2 * HOUR, 3 * HOUR]}, {T0: 3})
        (gap,) = gaps(asked, history(0), start={"offsets": {0: 3}}, now=DAY)
        assert (gap.to_ms, gap.to_offset) == (ms(3 * HOUR), 3)

    def test_they_are_compared_with_the_offsets_that_history_holds(self) -> None:
        (gap,) = gaps(self.TOPIC, holds({T0: 2}), start={"offsets": {0: 3}})
        assert (gap.from_offset, gap.to_offset) == (2, 3)
        assert decide(self.TOPIC, holds({T0: 2}), start={"offsets": {0: 2}}).gaps == []
        # What lies between is a control record.
        asked = log({T0: {0: 0, 1: 10, 3: 20}}, markers={T0: [(2, ms(15))]})
        assert decide(asked, holds({T0: 2}), start={"offsets": {0: 3}}).gaps == []

    def test_a_log_that_begins_right_behind_history_lacks_nothing(self) -> None:
        asked = log({T0: {0: 0, 1: 10, 3: 20}}, {T0: 2}, markers={T0: [(2, ms(15))]})
        assert decide(asked, holds({T0: 2}), start={"offsets": {0: 3}}).gaps == []

    def test_what_was_deleted_behind_held_offsets_is_a_gap(self) -> None:
        asked = log({T0: [0, 10, 20, 30]}, {T0: 3})
        (gap,) = gaps(asked, holds({T0: 2}), start={"offsets": {0: 3}})
        assert (gap.from_offset, gap.to_offset) == (2, 3)


@examples(200)
@given(
    steps=st.lists(st.integers(0, 30), min_size=2, max_size=12),
    archived=st.integers(0, 12),
    deleted=st.integers(0, 12),
    ahead=st.sampled_from([None, 2 * DAY, YEAR_2099]),
    name=st.sampled_from(["previous", *FIXED]),
)
def test_whatever_one_row_claims_nothing_is_lost_without_a_refusal(
    steps: list[int], archived: int, deleted: int, ahead: float | None, name: str
) -> None:
    """Random logs and archives; one row of history may be ahead of all records by days."""
    times = [float(sum(steps[: at + 1])) * 600 for at in range(len(steps))]
    held = min(archived, len(times) - 1)
    first = min(deleted, len(times) - 1)
    asked = log({T0: times}, {T0: first})
    end = times[held - 1] if held else -1.0
    # Rows of equal time as the last archived one are read again.
    previous = history(end if ahead is None else ahead + times[-1], event_time_ms=ms(end))
    declared = dict(FIXED.get(name, {"start": "previous"}))
    if "offsets" in name:
        declared = {"start": {"offsets": {0: max(first, min(2, len(times)))}}}
    if name == "ago":
        declared = {"start": {"ago": "0 s"}}
    try:
        found = decide(asked, previous, now=times[-1] + 3 * DAY, **declared)
    except SeamError as error:
        event(f"refused: {error.fields.get('field', 'gap')}")
        return
    event("decided")
    lost = range(held, starts(found)[T0])
    # Offsets that people declare are believed within an hour.
    believed = 3600 if "offsets" in name else 0
    assert all(times[at] <= end + believed for at in lost)
