"""Where the picture of the seam draws what."""

from __future__ import annotations

from typing import Any

from hybrid_extensions.report.model import HandOver, PartitionLine, PlanPart, SourcePlan
from hybrid_extensions.report.timeline import MOST_PARTITIONS, Bar, offset_lanes, timelines


def planned(last_ms: int = 800) -> PlanPart:
    """History from 0 to some time, then a topic."""
    history = SourcePlan(
        name="history", kind="files", is_bounded=True, place="in/*", from_ms=0, to_ms=last_ms
    )
    live = SourcePlan(name="live", kind="topic", is_bounded=False, place="t at b:9092")
    return PlanPart(
        created_ms=0, sources=[history, live], warnings=[], approval=None, needs_approval=False
    )


def handed_over(start_ms: int, *partitions: PartitionLine) -> HandOver:
    return HandOver(
        source="live",
        previous="history",
        is_made=True,
        decided_by="event time",
        rule="key",
        complete_through_ms=start_ms,
        start_ms=start_ms,
        partitions=list(partitions),
    )


def line(**changes: Any) -> PartitionLine:
    given: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "log_start": 0,
        "start": 50,
        "why": "",
        "first_offset": 50,
        "first_ms": 1,
        "seam_end": 80,
        "overlap": 30,
        "read_to": 200,
    }
    return PartitionLine(**{**given, **changes})


def test_the_overlap_is_what_both_have_of_event_time() -> None:
    [whole] = timelines(planned(), [handed_over(600)], 1000)
    history, live = whole.lanes
    assert history.bars == [Bar("history", 0, 80), Bar("overlap", 60, 20)]
    assert live.bars == [Bar("topic", 60, 40), Bar("overlap", 60, 20)]
    assert (whole.from_ms, whole.to_ms, whole.complete) == (0, 1000, 60)
    assert (history.is_open, live.is_open) == (False, True)


def test_a_narrow_overlap_is_drawn_again_enlarged() -> None:
    _, seam = timelines(planned(), [handed_over(770)], 1000)
    assert (seam.from_ms, seam.to_ms) == (740, 830)
    assert seam.lanes[0].bars[1] == Bar("overlap", 33.333, 33.334)


def test_a_topic_that_begins_after_history_overlaps_with_nothing() -> None:
    [whole] = timelines(planned(), [handed_over(900)], 1000)
    assert {bar.kind for lane in whole.lanes for bar in lane.bars} == {"history", "topic"}


def test_an_end_that_is_not_known_is_not_made_up() -> None:
    [whole] = timelines(planned(), [handed_over(600)], None)
    assert whole.to_ms is None
    assert whole.lanes[1].bars[0].left + whole.lanes[1].bars[0].width == 100


def test_a_partition_shows_what_is_skipped_the_seam_and_what_follows() -> None:
    [lane] = offset_lanes([line()])
    assert lane.bars == [Bar("skipped", 0, 25), Bar("overlap", 25, 15), Bar("topic", 40, 60)]
    assert lane.note == "log start 0 · start 50 · seam end 80 · read up to 200"


def test_a_partition_without_records_has_no_bar() -> None:
    empty = line(start=0, seam_end=0, overlap=0, read_to=None)
    [lane] = offset_lanes([empty])
    assert lane.bars == []
    assert lane.note == "log start 0 · start 0 · no seam"


def test_of_many_partitions_the_first_are_drawn() -> None:
    lines = [line(partition=number) for number in range(MOST_PARTITIONS + 5)]
    assert len(offset_lanes(lines)) == MOST_PARTITIONS
