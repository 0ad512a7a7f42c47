"""What a comparison with the database is told of the live run."""

from __future__ import annotations

from hybrid_extensions.compare.compare_range import LiveRun
from hybrid_extensions.compare.live_run_state import live_run
from orchestration.supervision.rules.verdict import Finding, Verdict
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from spark_jobs.run_state.heartbeat import Heartbeat

BEAT = Heartbeat(
    launch_id="l",
    pid=1,
    host="h",
    source="changes",
    phase="unbounded",
    state="running",
    at_ms=1,
    batch_id=7,
    pace_ms=300_000,
)


def seen(live: Verdict | None, lag: int | None = 0) -> LiveRun:
    source = SourceStatus(source="changes", state="running", heartbeat=BEAT, lag=lag)
    return live_run(
        Status(
            pipeline="orders",
            generation="g1",
            serving="g1",
            planned=True,
            healthy=True,
            sources=[source],
            live=live,
        )
    )


def test_a_run_that_is_not_healthy_is_not_judged() -> None:
    assert seen(None).why_not == "the live run was not requested"
    assert seen(Verdict(health="paused", reason="…")).why_not == "the live run is paused"


def test_a_slot_that_nobody_reads_is_not_judged_though_the_run_is_still_healthy() -> None:
    idle = Finding(name="slot", passed=False, is_pending=True, text="No connector reads it.")
    found = seen(Verdict(health="healthy", reason="…", findings=[idle]))
    assert found.why_not == "No connector reads it"


def test_what_waits_in_topic_and_database_is_known() -> None:
    slot = Finding(name="slot", passed=True, text="…", value=20.0)
    healthy = Verdict(health="healthy", reason="…", findings=[slot], numbers={"waiting_s": 4.0})
    assert seen(healthy, lag=3) == LiveRun(None, 7, has_all=False, waiting_s=20.0, pace_s=300.0)
    # How much waits is unknown: that nothing does is not known either.
    assert not seen(healthy, lag=None).has_all
    assert seen(Verdict(health="healthy", reason="…")) == LiveRun(None, 7, pace_s=300.0)
