"""Late rows are counted once per micro-batch, from Spark's progress reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.run_state.late_row_count import LateRows

HOUR_MS = 3_600_000
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def report(batch: int, *dropped: int, read: int = 100, at_s: int = 0) -> Any:
    """A progress report of Spark."""
    at = datetime.fromtimestamp(NOON.timestamp() + at_s, UTC)
    return {
        "batchId": batch,
        "timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
        "numInputRows": read,
        "eventTime": {"watermark": "2024-01-01T11:00:00.000Z"},
        "stateOperators": [
            {"operatorName": f"operator{number}", "numRowsDroppedByWatermark": count}
            for number, count in enumerate(dropped)
        ],
    }


def count(*reports: Any, before: LateRows | None = None) -> LateRows:
    return (before or LateRows(source="live")).with_reports(reports, HOUR_MS)


def test_each_micro_batch_counts_once_over_all_operators() -> None:
    found = count(report(0, 1, 2), report(1, 0, 0), report(2, 0, 4))
    assert count(report(2, 0, 4), before=found) == found
    assert (found.dropped, found.last_batch, found.unknown_batches) == (7, 2, 0)
    assert found.first is not None
    assert (found.first.rows, found.first.operators) == (3, ["operator0", "operator1"])
    assert found.latest is not None
    assert (found.latest.batch_id, found.latest.operators) == (2, ["operator1"])
    assert found.latest.watermark_ms == NOON_MS - HOUR_MS


def test_micro_batches_that_nobody_reported_are_unknown_and_not_zero() -> None:
    found = count(report(0, 0), report(3, 1))
    assert (found.dropped, found.unknown_batches, found.last_batch) == (1, 2, 3)
    # A driver that was killed after the commit of batch 4.
    resumed = found.after(4)
    assert (resumed.unknown_batches, resumed.last_batch) == (3, 4)
    assert resumed.after(4) == resumed


def test_the_share_is_that_of_the_recent_past() -> None:
    found = count(report(0, 50), report(1, 1, at_s=1800), report(2, 1, at_s=3000))
    assert found.share(NOON_MS) == (300, 52)
    assert found.share(NOON_MS + 1) == (200, 2)
    later = count(report(3, 0, at_s=90_000), before=found)
    assert (later.dropped, later.share(0)) == (52, (100, 0))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=200), st.data())
def test_the_document_stays_small_and_counts_each_row_however_reports_are_read(
    batches: list[tuple[int, int]], data: st.DataObject
) -> None:
    reports = [report(n, late, read=9, at_s=60 * n) for n, (late, _) in enumerate(batches)]
    found, at = LateRows(source="live"), 0
    while at < len(reports):
        step = data.draw(st.integers(1, 20))
        # Spark repeats what was reported before.
        found = count(*reports[max(at - 3, 0) : at + step], before=found)
        at += step
    assert found.dropped == sum(late for late, _ in batches)
    assert (found.unknown_batches, found.last_batch) == (0, len(batches) - 1)
    assert len(found.periods) <= 61
