"""What is known about rows behind the watermark before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from sources.common.positions import EndPosition, HeldOffsets, TopicPartition
from sources.errors import InputError
from spark_jobs.inside.checkpoint.watermark import (
    QueryWatermark,
    Reads,
    judge_arrival,
    judge_order,
    judge_seam,
)

HOUR_MS = 3_600_000
NOW = 1_800_000_000_000
DELAY = QueryWatermark(HOUR_MS, "all rows")


def end(**changes: Any) -> EndPosition:
    given = {
        "source": "history",
        "event_time_ms": NOW - 24 * HOUR_MS,
        "complete_through_ms": NOW - 25 * HOUR_MS,
        "event_times": "exact",
        "splits": 1,
        "rows": 1,
    }
    return EndPosition.model_validate({**given, **changes})


@pytest.mark.parametrize(
    ("back_ms", "reads", "is_exact", "told"),
    [
        (HOUR_MS - 1, "all rows", True, None),
        # With fewer rows there is less out of order.
        (HOUR_MS - 1, "some rows", True, None),
        (HOUR_MS, "some rows", True, "the transform filters rows before `withWatermark`"),
        (0, "unknown", True, "the transform computes, before `withWatermark`"),
        (0, "all rows", False, "event times of its files are only sampled"),
        (9 * HOUR_MS, "some rows", False, "the transform filters rows"),
    ],
)
def test_an_order_that_is_not_known_is_announced_and_not_refused(
    back_ms: int, reads: Reads, is_exact: bool, told: str | None
) -> None:
    found = judge_order("history", back_ms, QueryWatermark(HOUR_MS, reads), is_exact=is_exact)
    assert (found is None) == (told is None)
    assert (told or "") in (found or "")


@pytest.mark.parametrize("is_exact", [True, False])
def test_an_order_that_loses_rows_is_refused_with_each_way_out(is_exact: bool) -> None:
    # Samples can only show less than there is.
    with pytest.raises(InputError, match=r"reach back in event time by 1 h") as caught:
        judge_order("history", HOUR_MS, DELAY, is_exact=is_exact)
    for way in ("withWatermark", "batch.files", "event_time.not_after"):
        assert way in caught.value.hint


def test_what_came_late_is_dropped_as_live_would_have_dropped_it() -> None:
    assert judge_arrival("history", HOUR_MS - 1, DELAY) is None
    assert judge_arrival("history", 9 * HOUR_MS, None) is None
    told = judge_arrival("history", HOUR_MS, DELAY)
    assert "rows came up to 1 h late, and the watermark allows for 1 h" in (told or "")
    assert "`supervision.late_rows.history`" in (told or "")


def test_without_a_watermark_no_order_matters() -> None:
    assert judge_order("history", 9 * HOUR_MS, None, is_exact=False) is None
    assert judge_seam(end(complete_through_ms=0), "live", None, NOW) is None


@pytest.mark.parametrize(
    ("changes", "reads", "is_told"),
    [
        # Complete through 25 h ago, watermark 25 h ago: a delay as long as the lateness.
        ({}, "all rows", False),
        ({"complete_through_ms": NOW - 25 * HOUR_MS - 1}, "all rows", True),
        ({"complete_through_ms": 0}, "unknown", False),
        ({"complete_through_ms": 0, "event_times": "sampled"}, "all rows", False),
        # The start is decided by offsets, so event times of what history lacks are not known.
        (
            {
                "complete_through_ms": 0,
                "offsets": HeldOffsets(next={TopicPartition("t", 0): 1}, exact=True, holes={}),
            },
            "all rows",
            False,
        ),
    ],
)
def test_a_delay_shorter_than_the_lateness_is_announced_across_the_seam(
    changes: dict[str, Any], reads: Reads, is_told: bool
) -> None:
    found = judge_seam(end(**changes), "live", QueryWatermark(HOUR_MS, reads), NOW)
    assert (found is not None) == is_told
    if found is not None:
        assert "`allowed_lateness`" in found


def test_a_watermark_in_the_future_is_refused() -> None:
    with pytest.raises(InputError, match="after the present"):
        judge_seam(end(event_time_ms=NOW + HOUR_MS + 1), "live", DELAY, NOW)
    assert judge_seam(end(event_time_ms=NOW, complete_through_ms=NOW), "live", DELAY, NOW) is None
