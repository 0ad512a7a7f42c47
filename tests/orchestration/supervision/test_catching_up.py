"""How far a run is behind, by what its drivers recorded."""

from __future__ import annotations

import pytest

from orchestration.supervision.rules.catching_up import Behind, find_behind
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.progress_log import ProgressLog, Sample

S = 1000
NOW = 1_800_000_000_000
LATE = 600 * S


def log(*samples: tuple[int, int, int | None], launch: str = "a") -> ProgressLog:
    """Samples: seconds ago, done, left."""
    return ProgressLog(
        unit="records",
        samples=[
            Sample(launch_id=launch, at_ms=NOW - ago * S, done=done, left=left)
            for ago, done, left in samples
        ],
    )


def beat(rows_per_s: float | None = None) -> Heartbeat:
    return Heartbeat(
        launch_id="a",
        pid=7,
        host="here",
        source="live",
        phase="unbounded",
        state="running",
        at_ms=NOW,
        rows_per_s=rows_per_s,
    )


@pytest.mark.parametrize(
    ("progress", "rate", "lag", "behind"),
    [
        (None, None, 9, None),
        (log((5, 0, 9)), None, 0, None),
        (log((5, 0, 9)), None, None, None),
        # Right after the switch: one micro-batch of a topic of millions.
        (log((5, 1000, None)), 100_000.0, 25_000_000, Behind(0, 250.0, None)),
        (log((5, 1000, 24_000_000)), 100_000.0, 24_000_000, Behind(5 * S, 240.0, None)),
        # What has just arrived says nothing about the pace.
        (log((5, 1000, 0)), 3.0, 1000, Behind(0, None, None)),
        # Steady: much waits, each record for a short time.
        (log((10, 0, 100), (5, 100, 100), (0, 200, 100)), 50.0, 100, Behind(0, 2.0, None)),
        # The input of an hour ago is still not committed, and less of it than then.
        (
            log((3600, 0, 1000), (300, 500, 700), (0, 700, 400)),
            None,
            400,
            Behind(3600 * S, 400.0, True),
        ),
        # It takes in as much as comes.
        (
            log((3600, 0, 1000), (300, 500, 1000), (0, 600, 1000)),
            10.0,
            1000,
            Behind(3600 * S, 100.0, False),
        ),
    ],
)
def test_how_far_a_run_is_behind(
    progress: ProgressLog | None, rate: float | None, lag: int | None, behind: Behind | None
) -> None:
    assert find_behind(progress, beat(rate), lag, None, NOW, LATE) == behind


def test_an_earlier_launch_says_since_when_input_waits_but_not_whether_it_becomes_less() -> None:
    before, after = log((36_000, 0, 10), launch="a"), log((5, 0, 9000), launch="b")
    both = ProgressLog(unit="records", samples=[*before.samples, *after.samples])
    found = find_behind(both, beat(), 9000, None, NOW, LATE)
    assert found == Behind(36_000 * S, None, None)


def test_a_micro_batch_that_takes_long_is_input_that_waits() -> None:
    found = find_behind(log((5, 1000, 0)), beat(), 50, NOW - 90 * S, NOW, LATE)
    assert found == Behind(90 * S, None, None)
