"""The verdict on a live run: what is red, what is not, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.capture.silent_database import SilentDatabase
from orchestration.capture.slot_state import SlotSeen
from orchestration.supervision.late_row_findings import LateSeen
from orchestration.supervision.observation import SPLITS, Seen, behind_since
from orchestration.supervision.rules.catching_up import Behind
from orchestration.supervision.rules.health import judge
from orchestration.supervision.rules.verdict import RED, Finding, Health, expected_findings
from sources.config.supervision import Restarts, Supervision
from sources.errors import ErrorReport
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import RequestedState
from tests.properties import examples

DISK_FULL = ErrorReport(kind="spark", message="Disk full.", transient=True)
GAP = ErrorReport(kind="seam", message="Records are missing.", hint="Accept the gap.")
UNREADABLE = GAP.model_copy(update={"hint": "Drop it, then run `hybrid run P`."})
S = 1000
NOW = 1_800_000_000_000
EXPECTED = Supervision(
    lag=1000,
    event_time_lag=timedelta(hours=1),
    freshness=timedelta(seconds=20),
    stuck_after=timedelta(seconds=30),
    start_within=timedelta(seconds=60),
)


LENIENT = EXPECTED.model_copy(update={"freshness": timedelta(minutes=5)})


def beat(**changes: Any) -> Heartbeat:
    given = {
        "launch_id": "l",
        "pid": 7,
        "host": "somewhere",
        "source": "live",
        "phase": "unbounded",
        "state": "running",
        "at_ms": NOW - S,
        "batch_id": 4,
        "batches": 1,
        "idle": True,
        "advanced_at_ms": NOW - S,
        "event_time_ms": NOW - 5 * S,
    }
    return Heartbeat.model_validate({**given, **changes})


def asked(ago_s: float = 900, **changes: Any) -> RequestedState:
    given = {"source": "live", "is_requested": True, "at_ms": NOW - int(ago_s * S)}
    return RequestedState.model_validate({**given, **changes})


STOPPED = asked(0, is_requested=False)
PAUSED = asked(0, is_requested=False, is_paused=True)
NO_BROKER = ErrorReport(
    kind="unavailable", message="The broker b:1 is down.", hint="Start it.", transient=True
)
HEALTHY = Seen(
    pipeline="events",
    requested=asked(),
    is_alive=True,
    launched_ms=NOW - 800 * S,
    beat=beat(),
    lag=0,
    behind_since_ms=None,
)
BUSY = replace(
    HEALTHY, lag=9, beat=beat(idle=False, advanced_at_ms=NOW - 5 * S), behind_since_ms=NOW - 5 * S
)
HANGING = replace(HEALTHY, beat=beat(listing_due_ms=NOW - 21 * S))
STILL = replace(BUSY, behind_since_ms=NOW - 30 * S)
DEAD = replace(HEALTHY, is_alive=False, log=Path("/state/live.log"))
COMING_UP = replace(HEALTHY, beat=None, lag=None)


def preparing() -> Heartbeat:
    return beat(advanced_at_ms=None, idle=False, worked_at_ms=NOW - S)


def slot(**seen: Any) -> Seen:
    return replace(HEALTHY, slot=SlotSeen(**seen))


@pytest.mark.parametrize(
    ("seen", "health", "told"),
    [
        (HEALTHY, "healthy", "The live run is up and has nothing to commit."),
        (BUSY, "healthy", "commits what arrives"),
        (replace(HEALTHY, requested=STOPPED), "stopped", "The process of the run is still there"),
        (
            replace(DEAD, requested=asked(0, is_requested=False, by="ann")),
            "stopped",
            "The live run has been stopped since 15 Jan 2027 08:00 UTC by ann. 0 records",
        ),
        (
            replace(DEAD, requested=STOPPED, lag=None, lag_error=NO_BROKER),
            "stopped",
            "How much input waits is unknown: The broker b:1 is down. To resume it, run",
        ),
        (
            replace(DEAD, requested=PAUSED),
            "paused",
            "since 15 Jan 2027 08:00 UTC. 0 records wait. To resume it, run `hybrid resume P`.",
        ),
        (
            replace(
                STILL, requested=asked(0, is_requested=False, is_paused=True, why="w", by="ann")
            ),
            "paused",
            "UTC by ann (w). 9 rec",
        ),
        (
            DEAD,
            "dead",
            "See `/state/live.log`. If nothing starts it again, `hybrid resume P` does.",
        ),
        (
            replace(DEAD, obstacle="the disk is full"),
            "dead",
            "without a report. If nothing starts it again, `hybrid resume P` does. The disk is "
            "full. A restart waits until it can be written.",
        ),
        (
            replace(DEAD, beat=beat(state="failed", failure=DISK_FULL)),
            "dead",
            "The live run failed: Disk full.",
        ),
        # Only a transient failure is worth a restart; the other one says what is to be done.
        (
            replace(DEAD, beat=beat(state="failed", failure=GAP)),
            "failed",
            "would fail again: Records are missing. What it committed stays in the table. Accept "
            "the gap. Once that is done, start the run with `hybrid resume P`.",
        ),
        (
            replace(
                DEAD,
                refused=GAP.model_copy(update={"hint": "Begin `hybrid generation new P`."}),
            ),
            "failed",
            "Begin `hybrid generation new P`. After another correction, start the run with",
        ),
        (
            replace(DEAD, beat=beat(state="failed", failure=UNREADABLE)),
            "failed",
            "would fail again: Records are missing. What it committed stays in the table. Drop it, "
            "then run `hybrid resume P`.",
        ),
        # What comes before the live run has to be done first, by the command that does it.
        (
            replace(DEAD, refused=UNREADABLE),
            "failed",
            "Drop it, then run `hybrid run P`. Once that",
        ),
        (replace(DEAD, refused=GAP), "failed", "could not be started again, and is not restarted"),
        (replace(DEAD, refused=DISK_FULL), "dead", "could not be started again: Disk full."),
        (replace(DEAD, refused=GAP, restarts=3), "failed", "Accept the gap."),
        (replace(HEALTHY, refused=GAP), "healthy", ""),
        # What the run before the request reported is no failure of this one.
        (
            replace(
                DEAD,
                requested=asked(99),
                launched_ms=None,
                beat=beat(state="failed", failure=GAP, at_ms=NOW - 100 * S),
            ),
            "dead",
            "but not launched",
        ),
        (replace(DEAD, beat=beat(state="stopped")), "dead", "although nobody stopped it"),
        (
            replace(DEAD, beat=None, lag=None),
            "dead",
            "ended without a report, so something killed it",
        ),
        (replace(DEAD, launched_ms=None, beat=None), "dead", "but not launched"),
        (replace(DEAD, launched_ms=NOW - 1000 * S, beat=None), "dead", "but not launched"),
        (
            replace(DEAD, launched_ms=None, beat=None, requested=asked(1)),
            "starting",
            "about to be",
        ),
        (
            replace(DEAD, launched_ms=NOW - 9 * S, beat=None, requested=asked(39)),
            "dead",
            "ended without a report, so something killed it",
        ),
        (
            replace(DEAD, launched_ms=NOW - 99 * S, beat=None, requested=asked(39)),
            "starting",
            "about to be",
        ),
        # It was there when it was asked for, and ended after that.
        (
            replace(DEAD, launched_ms=NOW - 99 * S, requested=asked(9)),
            "dead",
            "ended without a report, so something killed it",
        ),
        (replace(COMING_UP, launched_ms=NOW - 59 * S), "starting", "is not committed yet"),
        (replace(COMING_UP, launched_ms=NOW - 60 * S), "stuck", "is not committed after 1 min"),
        (
            replace(HEALTHY, launched_ms=NOW - S, beat=beat(advanced_at_ms=None, idle=False)),
            "starting",
            "first micro-batch",
        ),
        # A frozen driver: its lock is held, its words stand still. Input or not.
        (
            replace(HEALTHY, beat=beat(at_ms=NOW - 30 * S)),
            "stuck",
            "process 7, wrote its last heartbeat 30 s ago",
        ),
        (replace(BUSY, behind_since_ms=NOW - 19 * S), "healthy", ""),
        (replace(STILL, behind_since_ms=NOW - 29 * S), "late", "othing was committed for 29 s"),
        (STILL, "stuck", "othing was committed for 30 s while 9 records wait"),
        (replace(STILL, lag=1), "stuck", "while 1 record waits."),
        (replace(STILL, lag=1, unit=SPLITS), "stuck", "while 1 split waits."),
        (replace(STILL, lag=None), "stuck", "while input waits."),
        (replace(STILL, beat=beat(worked_at_ms=NOW - 29 * S)), "late", "committed for 30 s"),
        (replace(STILL, beat=beat(worked_at_ms=NOW - 30 * S)), "stuck", "committed for 30 s"),
        (replace(STILL, beat=beat(pace_ms=60 * S)), "healthy", ""),
        (replace(BUSY, lag=1001), "late", "1,001 records wait; up to 1,000 may."),
        (replace(BUSY, lag=1001, unit=SPLITS), "late", "1,001 splits wait; up to 1,000 may."),
        (replace(BUSY, lag=1000), "healthy", ""),
        (
            replace(HEALTHY, lag=None, lag_error=NO_BROKER),
            "catching-up",
            "How much input waits is unknown: The broker b:1 is down. Start it.",
        ),
        (
            replace(HEALTHY, lag=None, lag_error=NO_BROKER, lag_unknown_since_ms=NOW - 601 * S),
            "late",
            "Start it. This has been so for 10 min 1 s.",
        ),
        # A refusal does not pass by itself.
        (replace(HEALTHY, lag=None, lag_error=GAP), "late", "is unknown: Records are missing."),
        (replace(HEALTHY, lag=None), "catching-up", "the run has not reported it yet."),
        (replace(BUSY, lag=None, lag_error=NO_BROKER), "catching-up", "The broker b:1 is down."),
        (HANGING, "late", "The folder was due to be listed 21 s ago, and was not."),
        (replace(HEALTHY, beat=beat(listing_due_ms=NOW - 20 * S)), "healthy", ""),
        (
            replace(BUSY, beat=beat(event_time_ms=NOW - 3601 * S)),
            "late",
            "event time read is 1 h 1 s behind",
        ),
        # With nothing to read old events are no fault of the run's.
        (replace(HEALTHY, beat=beat(event_time_ms=0)), "healthy", ""),
        (slot(), "healthy", ""),
        (slot(gone="The slot is lost. Begin again."), "cut-off", "The slot is lost. Begin again."),
        # How much the connector has yet to read is unknown, as with a broker that does not answer.
        (
            slot(unknown="no answer"),
            "catching-up",
            "The state of the slot is unknown: no answer.",
        ),
        (
            slot(unknown="no answer", unknown_since_ms=NOW - 600 * S),
            "catching-up",
            "The state of the slot is unknown: no answer.",
        ),
        (
            slot(unknown="no answer", unknown_since_ms=NOW - 601 * S, idle_since_ms=NOW - 700 * S),
            "late",
            "The state of the slot is unknown: no answer. This has been so for 10 min 1 s.",
        ),
        # The same without a slot or connector that would tell.
        (
            replace(HEALTHY, silent=SilentDatabase("db:3306 is down.", NOW - 600 * S)),
            "catching-up",
            "Whether changes wait in the database is unknown: db:3306 is down.",
        ),
        (
            replace(HEALTHY, silent=SilentDatabase("db:3306 is down", NOW - 601 * S, "eu.orders")),
            "late",
            "Shard eu.orders: Whether changes wait in the database is unknown: db:3306 is down. "
            "This has been so for 10 min 1 s.",
        ),
        (
            replace(HANGING, silent=SilentDatabase("db:3306 is down", NOW)),
            "late",
            "and was not. Whether changes wait in the database is unknown: db:3306 is down.",
        ),
        (slot(idle_since_ms=NOW - 20 * S), "healthy", ""),
        (slot(idle_since_ms=NOW - 21 * S), "cut-off", "has read the slot for 21 s"),
        # It stays so until somebody acts.
        (
            slot(
                idle_since_ms=NOW,
                connector="http://c/connectors/x",
                failure="E: gone",
                restart_command="curl http://c",
            ),
            "cut-off",
            "http://c/connectors/x is FAILED (E: gone), as seen for less than 1 s: no change "
            "comes until it is started again. Correct the cause, then run `curl http://c`. With "
            "`snapshot.restart_connector: true`",
        ),
        (
            slot(idle_since_ms=NOW - 20 * S, failure="E: gone", is_restarted=True),
            "catching-up",
            "The supervision does that, too",
        ),
        (
            slot(idle_since_ms=NOW - 21 * S, failure="E: gone", is_restarted=True),
            "cut-off",
            "The supervision does that, too",
        ),
        # What would read it may well be gone: not only after `freshness`.
        (
            slot(idle_since_ms=NOW, connector="http://c/connectors/x", silent="refused."),
            "catching-up",
            "has read the slot for less than 1 s, and nothing is known of http://c/connectors/x: "
            "refused. No change comes until it runs. If Kafka Connect has ended, such as for want "
            "of memory, its own log says why: start it again.",
        ),
        (slot(idle_since_ms=NOW - 21 * S, silent="refused"), "cut-off", ": refused. No change"),
        (replace(HEALTHY, wrong_rows=0), "healthy", ""),
        (replace(HEALTHY, wrong_rows=2), "wrong-rows", "2 rows are stale or missing, as a change"),
        (replace(DEAD, wrong_rows=2), "dead", "ended without a report, so something killed it"),
        # The topic is read to its end, but the connector has not written all to it.
        (slot(unread_bytes=58_000_000), "catching-up", "58.0 MB in the database, not read by"),
        (slot(unread_bytes=58_000, unread_since_ms=NOW - 20 * S), "healthy", ""),
        (
            slot(unread_bytes=58_000, unread_since_ms=NOW - 21 * S),
            "late",
            "58.0 kB in the database, not read by the connector, the first of it for 21 s at",
        ),
        (
            slot(unread_bytes=58_000_000, idle_since_ms=NOW - 21 * S, unread_since_ms=NOW - S),
            "cut-off",
            "has read the slot for 21 s. Start the connector again. 58.0 MB in the database",
        ),
        # A connector of MariaDB confirms now and then only, and may have read more by now.
        (slot(unread_bytes=58_000_000, is_confirmation=True), "healthy", ""),
        (
            slot(unread_bytes=58, unread_since_ms=NOW - 120 * S, is_confirmation=True),
            "healthy",
            "",
        ),
        (
            slot(unread_bytes=58, unread_since_ms=NOW - 121 * S, is_confirmation=True),
            "late",
            "58 Bytes in the database, not confirmed by the connector, the first of it for 2 min",
        ),
        (
            slot(unread_bytes=58, idle_since_ms=NOW - 21 * S, is_confirmation=True),
            "cut-off",
            "has read the slot for 21 s",
        ),
        # On the driver's machine, whatever the supervision sees from its own.
        (
            replace(BUSY, beat=beat(idle=False, unreachable=NO_BROKER)),
            "catching-up",
            "Nothing was committed for 5 s while 9 records wait. Its driver on somewhere "
            "reports: The broker b:1 is down. Start it.",
        ),
        (
            replace(STILL, beat=beat(idle=False, unreachable=NO_BROKER)),
            "stuck",
            "wait. Its driver on somewhere reports: The broker b:1 is down. Start it.",
        ),
        (
            replace(HEALTHY, beat=beat(idle=False, unreachable=NO_BROKER)),
            "catching-up",
            "The live run is up. Its driver on somewhere reports: The broker b:1 is down. Start",
        ),
        (
            replace(DEAD, lag=None, lag_error=NO_BROKER),
            "dead",
            "does. The broker b:1 is down. A restart waits until the broker answers.",
        ),
        (
            replace(STILL, lag=None, lag_error=NO_BROKER),
            "late",
            "The broker b:1 is down.",
        ),
        (
            replace(slot(gone="it is lost"), is_alive=False),
            "dead",
            "ended without a report, so something killed it",
        ),
        (
            replace(slot(gone="it is lost"), requested=STOPPED),
            "stopped",
            "The live run has been stopped",
        ),
        (
            replace(COMING_UP, launched_ms=NOW - 99 * S, beat=preparing()),
            "starting",
            "is not committed yet",
        ),
        (replace(HEALTHY, restarts=2), "healthy", ""),
        (
            replace(HEALTHY, restarts=3),
            "crash-looping",
            "3 times within 30 min, which is a crash loop.",
        ),
        (replace(DEAD, restarts=2), "dead", ""),
        (
            replace(DEAD, restarts=3),
            "crash-looping",
            "ended without a report, so something killed it",
        ),
        (replace(COMING_UP, restarts=3), "crash-looping", "is not committed"),
        (replace(DEAD, restarts=1, gave_up=True), "crash-looping", "and is not restarted any more"),
        (replace(HEALTHY, restarts=1, gave_up=True), "healthy", ""),
    ],
)
def test_the_verdict(seen: Seen, health: Health, told: str) -> None:
    verdict = judge(seen, EXPECTED, NOW)
    assert verdict.health == health
    assert told in verdict.reason
    expected = expected_findings(
        has_slot=seen.slot is not None, is_mirror=seen.wrong_rows is not None
    )
    assert [found.name for found in verdict.findings] == [*expected]


@pytest.mark.parametrize(
    ("seen", "passed", "is_pending", "told"),
    [
        (HEALTHY, True, False, "nothing to commit"),
        (replace(HEALTHY, lag=None), True, False, "its driver reports nothing to commit"),
        (BUSY, True, False, "commits what arrives"),
        # Tasks end, but nothing is committed: no longer green, and not stuck.
        (
            replace(STILL, beat=beat(worked_at_ms=NOW - S)),
            False,
            True,
            "committed for 30 s while 9 records wait; the micro-batch is slow",
        ),
        (STILL, False, False, "committed for 30 s while 9 records wait."),
        (replace(COMING_UP, launched_ms=NOW - S), False, True, "is not committed yet"),
        (replace(DEAD, requested=PAUSED), False, True, "paused"),
        (replace(DEAD, requested=STOPPED), False, True, "stopped"),
    ],
)
def test_alive_is_green_only_if_the_run_commits_or_has_nothing_to_commit(
    seen: Seen, passed: bool, is_pending: bool, told: str
) -> None:
    found = finding("alive", seen, LENIENT)
    assert (found.passed, found.is_pending) == (passed, is_pending)
    assert told in found.text


def test_a_slow_micro_batch_is_neither_healthy_nor_red_until_freshness_is_over() -> None:
    slow = replace(STILL, beat=beat(worked_at_ms=NOW - S))
    assert judge(slow, LENIENT, NOW).health == "catching-up"
    assert judge(slow, EXPECTED, NOW).health == "late"


@pytest.mark.parametrize(
    "requested",
    [PAUSED, STOPPED],
)
def test_a_run_that_people_ended_is_a_warning_in_each_check(requested: RequestedState) -> None:
    verdict = judge(replace(DEAD, requested=requested), EXPECTED, NOW)
    assert not verdict.is_red
    states = {(each.passed, each.is_pending, each.text) for each in verdict.findings}
    assert states == {(False, True, verdict.reason)}


def finding(name: str, seen: Seen, expected: Supervision = EXPECTED) -> Finding:
    [found] = [each for each in judge(seen, expected, NOW).findings if each.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "seen", "value", "limit", "unit"),
    [
        ("lag", replace(BUSY, lag=1001), 1001, 1000, "records"),
        ("lag", replace(BUSY, lag=None), None, None, ""),
        ("waiting_time", HEALTHY, 0, 20, "s"),
        ("waiting_time", BUSY, 5, 20, "s"),
        ("waiting_time", replace(BUSY, beat=beat(pace_ms=7 * S)), 5, 27, "s"),
        ("waiting_time", STILL, 30, 20, "s"),
        ("waiting_time", HANGING, 21, 20, "s"),
        ("waiting_time", replace(BUSY, beat=beat(event_time_ms=NOW - 3601 * S)), 3601, 3600, "s"),
        ("waiting_time", replace(BUSY, behind=Behind(61 * S, 5, None)), 61, 60, "s"),
        ("waiting_time", replace(BUSY, behind=Behind(5 * S, 99, None)), 99, 60, "s"),
        ("waiting_time", replace(BUSY, behind=Behind(601 * S, 5, False)), 601, 600, "s"),
        ("waiting_time", replace(HEALTHY, lag=None), None, None, ""),
        ("late_rows", HEALTHY, None, None, ""),
        (
            "late_rows",
            replace(HEALTHY, late=LateSeen(live=6, read=500, dropped=6)),
            0.012,
            0.01,
            "share of rows",
        ),
        ("late_rows", replace(HEALTHY, late=LateSeen(history=3)), 3, 0, "rows"),
        ("slot", slot(), 0, 20, "s"),
        ("slot", slot(idle_since_ms=NOW - 21 * S), 21, 20, "s"),
        ("slot", slot(unknown="no answer"), None, None, ""),
        ("alive", HEALTHY, 1, 30, "s"),
        ("alive", BUSY, 5, 30, "s"),
        ("alive", STILL, 30, 30, "s"),
        ("alive", replace(HEALTHY, beat=beat(at_ms=NOW - 31 * S)), 31, 30, "s"),
        ("alive", replace(COMING_UP, launched_ms=NOW - 9 * S), 9, 60, "s"),
        ("alive", DEAD, 1, None, "s"),
        ("alive", replace(DEAD, beat=None), None, None, ""),
    ],
)
def test_each_check_says_what_was_judged_and_by_which_limit(
    name: str, seen: Seen, value: float | None, limit: float | None, unit: str
) -> None:
    found = finding(name, seen)
    assert (found.value, found.limit, found.unit) == (value, limit, unit)


def test_the_slot_says_how_much_of_its_log_the_database_keeps() -> None:
    assert "keeps 6.4 MB of its log for it" in finding("slot", slot(retained_bytes=6_400_000)).text


def test_without_restarts_a_dead_run_is_dead_and_no_crash_loop() -> None:
    expected = Supervision(restarts=Restarts(limit=0))
    assert judge(replace(DEAD, gave_up=True), expected, NOW).health == "dead"


def test_numbers_are_plain_and_what_is_not_known_is_left_out() -> None:
    numbers = judge(replace(BUSY, beat=beat(state_bytes=5)), EXPECTED, NOW).numbers
    assert numbers["event_time_lag_s"] == 5.0
    assert (numbers["uncommitted_s"], numbers["waiting_s"]) == (5.0, 5.0)
    assert (numbers["lag"], numbers["batch"], numbers["state_bytes"]) == (9, 4, 5)
    assert "watermark_ms" not in numbers


AGES = st.none() | st.integers(-S, 70 * S) | st.integers(70 * S, 2000 * S)
MANY = examples(200)
BEATS = st.none() | st.builds(
    lambda state, failure, idle, at, advanced: beat(
        state=state,
        failure=failure if state == "failed" else None,
        idle=idle,
        at_ms=NOW - at,
        advanced_at_ms=advanced and NOW - advanced,
    ),
    st.sampled_from(["starting", "running", "stopped", "failed"]),
    st.sampled_from([None, DISK_FULL, GAP]),
    st.booleans(),
    st.integers(0, 200 * S),
    AGES,
)
SEEN = st.builds(
    lambda wanted, launched, behind, **rest: Seen(
        pipeline="events",
        requested=STOPPED if wanted is None else asked(wanted / S),
        launched_ms=launched and NOW - launched,
        behind_since_ms=behind and NOW - behind,
        **rest,
    ),
    AGES,
    AGES,
    AGES,
    is_alive=st.booleans(),
    beat=BEATS,
    refused=st.sampled_from([None, DISK_FULL, GAP]),
    lag=st.none() | st.integers(0, 5000),
    restarts=st.integers(0, 9),
    gave_up=st.booleans(),
    silent=st.none() | st.builds(SilentDatabase, st.just("gone"), st.just(NOW) | st.just(0)),
)


@MANY
@given(SEEN)
def test_healthy_means_all_of_it_and_red_means_a_check_that_fails(seen: Seen) -> None:
    verdict = judge(seen, EXPECTED, NOW)
    failed = [found for found in verdict.findings if not found.passed]
    assert (verdict.health == "healthy") == (not failed)
    # Nothing red is shown as a mere warning.
    assert verdict.is_red == any(not found.is_pending for found in failed)
    assert verdict.is_red == (verdict.health in RED)
    if verdict.health == "healthy":
        assert seen.is_alive
        assert seen.beat is not None
        assert NOW - seen.beat.at_ms < 30 * S
        assert seen.lag is not None
        assert seen.behind_since_ms is None or NOW - seen.behind_since_ms < 30 * S
    if not seen.requested.is_requested:
        assert verdict.health == "stopped"
    elif verdict.health == "failed":
        assert not seen.is_alive
        assert verdict.down is None
        assert verdict.failure is not None
        assert verdict.failure.model_copy(update={"effect": ""}) == GAP
    elif not seen.is_alive and verdict.down is None:
        # About to be launched: never green, and not for long.
        assert verdict.health in ("starting", "crash-looping")
        assert NOW - seen.requested.at_ms < 40 * S


@MANY
@given(SEEN, st.integers(0, 5000 * S))
def test_what_is_red_because_time_passed_does_not_heal_by_more_of_it(seen: Seen, more: int) -> None:
    if judge(seen, EXPECTED, NOW).down is not None:
        assert judge(seen, EXPECTED, NOW + more).down is not None


@MANY
@given(SEEN.filter(lambda seen: seen.requested.is_requested), st.integers(60 * S, 5000 * S))
def test_a_run_that_no_longer_moves_is_red_in_the_end(seen: Seen, more: int) -> None:
    assert judge(replace(seen, lag=1), EXPECTED, NOW + more + 1000 * S).is_red


@pytest.mark.parametrize(
    ("said", "lag", "before", "since"),
    [
        (None, 5, None, None),
        (beat(), 0, NOW - 9, None),
        (beat(), 5, None, NOW),
        (beat(), 5, NOW - 9, NOW - 9),
        (beat(), None, NOW - 9, None),
        (beat(idle=False), 5, None, NOW - S),
        (beat(idle=False), None, None, NOW - S),
        (beat(idle=False), 5, NOW - 2 * S, NOW - 2 * S),
        (beat(state="failed"), 5, None, NOW),
        # What it holds back until a slower partition is as far.
        (beat(held_offsets=5), 5, NOW - 9, None),
        (beat(held_offsets=5, idle=False), 5, None, NOW - S),
    ],
)
def test_since_when_input_waits(
    said: Heartbeat | None, lag: int | None, before: int | None, since: int | None
) -> None:
    assert behind_since(said, lag, before, NOW) == since


def test_records_that_are_held_back_are_told_with_the_lag() -> None:
    seen = replace(HEALTHY, lag=9, beat=beat(held_offsets=7, drift_ms=2_400_000))
    verdict = judge(seen, EXPECTED, NOW)
    [lag] = [each for each in verdict.findings if each.name == "lag"]
    assert "9 records wait, 7 of them until the slowest partition is as far" in lag.text
    assert "the fastest is 40 min ahead of it" in lag.text
    assert verdict.numbers["partition_drift_s"] == 2400.0


@pytest.mark.parametrize("unaligned", ["live", None])
def test_late_rows_of_a_topic_say_what_may_be_declared(unaligned: str | None) -> None:
    verdict = judge(late(live=9, read=10, dropped=9, unaligned=unaligned), EXPECTED, NOW)
    assert verdict.health == "dropping-rows"
    assert ("declare `align: {drift: …}` for source `live`" in verdict.reason) is bool(unaligned)


def late(**seen: Any) -> Seen:
    return replace(HEALTHY, late=LateSeen(**seen))


def far(waiting_s: int, left_s: float | None = None, is_less: bool | None = None) -> Seen:
    return replace(BUSY, behind=Behind(waiting_s * S, left_s, is_less))


@pytest.mark.parametrize(
    ("seen", "health", "told"),
    [
        (late(), "healthy", ""),
        (late(live=5, read=500, dropped=5), "healthy", ""),
        (
            late(live=6, read=500, dropped=6),
            "dropping-rows",
            "6 for 500 rows read (1.20%). `late_rows.live` allows 1.00%.",
        ),
        # What was long ago is shown, and no longer red.
        (late(live=6, read=0, dropped=0), "healthy", ""),
        (late(history=1), "dropping-rows", "`late_rows.history` allows 0 rows"),
        (late(unknown_batches=1), "healthy", ""),
        (replace(late(history=1), is_alive=False), "dead", "ended without a report"),
        (far(60, 60), "healthy", ""),
        (far(61, 5), "catching-up", "9 records wait, the first of them for 1 min 1 s"),
        (far(0, 61), "catching-up", "about 1 min 1 s left"),
        (far(599, 5, is_less=False), "catching-up", ""),
        (far(601, 5, is_less=False), "late", "have not become fewer within 10 min"),
        (far(9 * 3600, 5, is_less=True), "catching-up", ""),
        (far(9 * 3600, None, is_less=None), "catching-up", "an unknown time left"),
        (replace(far(601, 5, is_less=False), lag=1001), "late", "up to 1,000 may"),
        (replace(far(61, 5), late=LateSeen(history=1)), "dropping-rows", "history` allows 0"),
    ],
)
def test_the_verdict_on_late_rows_and_on_a_run_that_is_behind(
    seen: Seen, health: Health, told: str
) -> None:
    verdict = judge(seen, EXPECTED, NOW)
    assert verdict.health == health
    assert told in verdict.reason
    if health in ("healthy", "catching-up"):
        assert all(found.passed or found.is_pending for found in verdict.findings)


def test_batches_without_a_report_are_shown_and_only_warn() -> None:
    [found] = [
        each
        for each in judge(late(unknown_batches=2), EXPECTED, NOW).findings
        if each.name == "late_rows"
    ]
    assert (found.passed, found.is_pending) == (False, True)
    assert "Of 2 more micro-batches it is unknown" in found.text


def test_late_rows_and_the_time_left_are_numbers() -> None:
    seen = replace(far(61, 5), late=LateSeen(history=2, live=6, read=500, dropped=6))
    numbers = judge(seen, EXPECTED, NOW).numbers
    assert (numbers["waiting_s"], numbers["catch_up_s"]) == (61.0, 5)
    assert (numbers["late_rows"], numbers["late_rows_history"]) == (6, 2)
    assert numbers["late_rows_share"] == 0.012
