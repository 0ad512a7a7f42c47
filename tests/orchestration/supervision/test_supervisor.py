"""Supervision: when a live run is started again, when it is left alone, who is told."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.operations import live_run, stopping
from orchestration.supervision.live_look import Look
from orchestration.supervision.rules.verdict import Verdict
from orchestration.supervision.status import status
from orchestration.supervision.supervisor import Tick, decide, restart, tick
from orchestration.supervision.watch_memory import Restart, Watch, write_watch
from sources.common.times import now_ms
from sources.config.supervision import Restarts, Supervision
from sources.errors import RunError, StateError, UnavailableError
from spark_jobs.launch.launch_record import log_path
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from spark_jobs.run_state.requested_state import request, require_requested
from tests.command_line import invoke
from tests.orchestration.supervision.hook import SECRET, Hook, listening
from tests.orchestration.supervision.live_case import DISK_FULL, GAP, LiveCase
from tests.services.processes import wait_for
from tests.services.small_disk import small_disk


@pytest.fixture
def hook() -> Iterator[Hook]:
    with listening() as server:
        yield server


def look_at(case: LiveCase) -> Tick:
    found = tick(case.loaded)
    assert found is not None
    return found


def test_what_nobody_asked_for_is_not_supervised(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    assert tick(case.loaded) is None
    case.launch("by-hand")
    assert tick(case.loaded) is None
    assert status(case.loaded).live is None


def test_a_run_that_does_well_is_left_alone(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    assert look_at(case).verdict.health == "starting"
    case.launch("a")
    with case.alive():
        found = look_at(case)
        assert (found.verdict.health, found.restart) == ("healthy", None)
        assert status(case.loaded).healthy


def test_a_dead_run_is_asked_for_once_by_launch_until_the_limit(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    seen = []
    for number in range(5):
        case.launch(str(number), state="failed", failure=DISK_FULL)
        found = look_at(case)
        assert found.verdict.is_red
        assert not status(case.loaded).healthy
        seen.append((found.verdict.health, found.restart and found.restart.replaces))
        again = look_at(case)
        assert again.restart is None, "one that is under way is not asked for twice"
    assert seen == [
        ("dead", "0"),
        ("dead", "1"),
        ("crash-looping", "2"),
        ("crash-looping", "3"),
        ("crash-looping", None),
    ]
    reason = look_at(case).verdict.reason
    assert "is not restarted any more" in reason
    assert "disk full" in reason
    # Alive once more is no proof yet.
    case.launch("5")
    with case.alive():
        verdict = look_at(case).verdict
        assert verdict.health == "crash-looping"
        assert "disk full" in (verdict.error or "")
    # Somebody looked at it, and wants it again.
    case.ask_for_it()
    with case.alive():
        assert look_at(case).verdict.health == "healthy"
    assert case.watch().restarts == []
    case.launch("6", state="failed")
    assert look_at(case).restart is not None


@pytest.mark.parametrize(
    ("folder", "named", "mode"),
    [
        ("out", "The disk of the target folder {} is full.", "rw"),
        ("out", "The target folder {} is read-only.", "ro"),
        ("tmp", "The disk of the folder for temporary files {} is full.", "rw"),
    ],
)
def test_a_run_that_a_disk_ended_is_restarted_once_it_can_be_written_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, named: str, mode: str
) -> None:
    with small_disk(tmp_path / folder, "1m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
        case = LiveCase(tmp_path)
        case.ask_for_it()
        case.launch("a", state="failed", failure=DISK_FULL)
        disk.fill()
        disk.remount(mode)
        for _ in range(2 + case.loaded.pipeline.supervision.restarts.limit):
            found = look_at(case)
            assert (found.verdict.health, found.restart) == ("dead", None)
            told = f"{named.format(disk.folder)} A restart waits until it can be written."
            assert found.verdict.reason.endswith(told)
        assert (case.watch().restarts, case.watch().gave_up) == ([], False)
        disk.remount("rw")
        disk.free()
        assert look_at(case).restart is not None


def test_the_command_line_tells_the_verdict_and_ends_with_it(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch(
        "a", state="failed", failure=DISK_FULL.model_copy(update={"message": "disk [full]"})
    )
    answer = invoke(["status", str(case.path), "--json"])
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["live"]["health"] == "dead"
    assert "dead: The live run failed: disk [full]" in invoke(["status", str(case.path)]).stdout
    # Dead before it was stopped, but that is no longer of interest.
    stopping.stop(case.loaded)
    answer = invoke(["status", str(case.path), "--json"])
    assert (answer.exit_code, json.loads(answer.stdout)["live"]["health"]) == (0, "stopped")


def test_a_bounded_run_whose_driver_says_nothing_is_told_to_be_silent(tmp_path: Path) -> None:
    case = LiveCase(tmp_path, {"stuck_after": "1 min"})
    case.launch("a", source="history", phase="bounded")
    said = case.generation.read(heartbeat_name("inbox"), Heartbeat)
    assert said is not None
    with case.alive():
        # When it was written counts, and not what the driver's clock said then.
        for ahead_ms, age_s, state in (
            (0, 50, "running"),
            (-3_600_000, 50, "running"),
            (0, 61, "silent"),
            (3_600_000, 61, "silent"),
        ):
            beat = said.model_copy(update={"at_ms": now_ms() + ahead_ms - age_s * 1000})
            case.generation.replace(heartbeat_name("history"), beat)
            at_s = time.time() - age_s
            os.utime(case.generation.location(heartbeat_name("history")), (at_s, at_s))
            found = status(case.loaded)
            assert (found.sources[0].state, found.healthy) == (state, state == "running")
    assert status(case.loaded).sources[0].state == "dead"


def test_a_run_that_ended_without_a_report_is_told_with_the_path_of_its_log(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("0")
    reason = look_at(case).verdict.reason
    log = log_path(case.generation, case.loaded.pipeline.sources[-1].name)
    assert f"or its machine is gone. See `{log}`." in reason


def test_a_stopped_run_is_neither_red_nor_started_again(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    assert look_at(case).restart is not None
    assert stopping.stop(case.loaded) == []
    found = look_at(case)
    assert (found.verdict.health, found.restart) == ("stopped", None)
    assert status(case.loaded).healthy
    # A restart that was asked for before it was stopped comes too late.
    with pytest.raises(StateError, match="was stopped, so it is not started"):
        restart(case.loaded, case.loaded.pipeline.sources[-1])
    with pytest.raises(StateError, match="was stopped, so it is not started"):
        require_requested(case.generation)


def test_a_silent_driver_is_stuck_and_started_again(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", at_ms=now_ms() - 61_000)
    with case.alive():
        found = look_at(case)
    assert (found.verdict.health, found.verdict.down) == ("stuck", "stuck")
    assert found.restart is not None


def test_a_driver_that_says_idle_while_input_waits_is_not_believed_for_long(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path, {"stuck_after": "200 ms", "freshness": "0 s"})
    case.ask_for_it()
    case.launch("a", splits_total=4)
    with case.alive():
        look_at(case)
        since = case.watch().behind_since_ms
        assert since is not None
        while now_ms() < since + 200:
            case.launch("a", splits_total=4)
        found = look_at(case)
        assert found.verdict.health == "stuck"
        # A batch is progress, though more waits.
        case.launch("a", splits_total=4, batch_id=8)
        look_at(case)
        moved = case.watch().behind_since_ms
        assert moved is not None
        assert moved > since


def test_the_webhook_is_told_of_changes_alone(tmp_path: Path, hook: Hook) -> None:
    case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": hook.url})
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        look_at(case)
    assert hook.told == []
    case.launch("b", state="failed", failure=DISK_FULL)
    for _ in range(3):
        assert look_at(case).alert_problem is None
    assert [(one["before"], one["health"]) for one in hook.told] == [("healthy", "dead")]
    failed = "The live run failed: disk full. What it committed stays in the table."
    assert hook.told[0]["text"] == f"events: The live run is dead. {failed}"
    assert (hook.told[0]["pipeline"], hook.told[0]["source"]) == ("events", "inbox")
    # What is told stays told, whoever asks for the run.
    case.ask_for_it()
    case.launch("c")
    with case.alive():
        look_at(case)
        look_at(case)
    assert [(one["before"], one["health"]) for one in hook.told[1:]] == [("dead", "healthy")]


def test_a_terminal_failure_is_left_alone_at_once_and_told_once_until_people_act(
    tmp_path: Path, hook: Hook
) -> None:
    case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": hook.url})
    case.ask_for_it()
    case.launch("a")
    with case.alive():
        look_at(case)
    case.launch("b", state="failed", failure=GAP)
    for _ in range(3):
        found = look_at(case)
        assert (found.verdict.health, found.restart) == ("failed", None)
    assert (
        "Records are missing. What it committed stays in the table. Accept" in found.verdict.reason
    )
    assert "`hybrid resume P`" in found.verdict.reason
    assert not status(case.loaded).healthy
    [told] = hook.told
    assert (told["health"], told["failure"]["kind"]) == ("failed", "seam")
    assert f"hybrid resume {case.path}`" in told["reason"]
    assert case.watch().restarts == []
    # The same end with a transient failure is restarted: the report decides, and nothing else.
    case.launch("b", state="failed", failure=GAP.model_copy(update={"transient": True}))
    assert look_at(case).restart is not None
    # People ask for it again, or launch it: what failed before is over.
    case.launch("c", state="failed", failure=GAP)
    assert look_at(case).verdict.health == "failed"
    case.ask_for_it()
    assert look_at(case).verdict.health == "starting"
    case.launch("d")
    with case.alive():
        assert look_at(case).verdict.health == "healthy"


def test_a_restart_that_is_refused_is_not_tried_again_until_people_act(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    assert look_at(case).restart is not None
    # History, which comes before it, was never read.
    with pytest.raises(StateError) as refused:
        restart(case.loaded, case.loaded.pipeline.sources[-1])
    for _ in range(2):
        found = look_at(case)
        assert (found.verdict.health, found.restart) == ("failed", None)
        assert "could not be started again" in found.verdict.reason
        assert str(refused.value) in found.verdict.reason
    live = status(case.loaded).live
    assert live is not None
    assert (live.health, live.reason) == ("failed", found.verdict.reason)
    # A launch by hand, or another request, makes it irrelevant.
    case.launch("b")
    with case.alive():
        assert look_at(case).verdict.health == "healthy"
    case.launch("a", state="failed", failure=DISK_FULL)
    assert look_at(case).verdict.health == "failed"
    case.ask_for_it()
    assert look_at(case).verdict.health == "starting"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnavailableError("Broker `b:1` is silent.", "Start it."), "Broker `b:1` is silent."),
        (OSError("no more processes"), "The restart failed: OSError: no more processes."),
    ],
)
def test_a_restart_that_launched_nothing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    pauses = {"backoff": "10 ms", "longest": "20 ms", "limit": 4, "loop": 2}
    case = LiveCase(tmp_path, {"restarts": pauses})
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(live_run, "resume", fail)
    # More often than the limit is, and nothing of it counts: nothing was launched.
    for _ in range(2 * case.loaded.pipeline.supervision.restarts.limit):
        due = wait_for_restart(case).restart
        assert due is not None
        assert due.replaces == "a"
        with pytest.raises(type(error)):
            restart(case.loaded, case.loaded.pipeline.sources[-1])
    verdict = wait_for_restart(case).verdict
    assert (verdict.health, verdict.down) == ("dead", "dead")
    assert f"could not be started again: {text}" in verdict.reason
    assert len(case.watch().restarts) == 1


def wait_for_restart(case: LiveCase) -> Tick:
    """Look until a restart is due."""
    found: list[Tick] = []

    def is_due() -> bool:
        found.append(look_at(case))
        return found[-1].restart is not None

    wait_for(is_due, lambda: f"a restart: {found[-1]}")
    return found[-1]


SECOND = 1000


def test_a_restart_that_launched_nothing_is_tried_again_less_and_less_often_without_an_end() -> (
    None
):
    expected = Supervision()
    watch = Watch(requested_ms=0, launch_id="a", down_since_ms=0)
    dead = Verdict(health="dead", reason="r", down="dead")
    refused_ms, tries = None, []
    for at_ms in range(0, 3600 * SECOND, SECOND):
        watch, due = decide(Look(dead, watch, at_ms, refused_restart_ms=refused_ms), expected)
        if due is not None:
            tries.append(at_ms // SECOND)
            # The run of Dagster takes a while to be refused.
            refused_ms = due.at_ms
    assert tries[:7] == [10, 20, 40, 80, 160, 320, 620]
    assert {later - one for one, later in pairwise(tries[6:])} == {300}
    assert not watch.gave_up
    # The one that launches something is waited for.
    watch, due = decide(Look(dead, watch, 3600 * SECOND, refused_restart_ms=None), expected)
    assert due is None


def test_a_driver_that_a_restart_launched_reports_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)

    def launched(*_: Any) -> None:
        case.launch("b", state="failed", failure=DISK_FULL)
        message = "The driver was killed."
        raise RunError(message, "Start it.", transient=False)

    monkeypatch.setattr(live_run, "resume", launched)
    with pytest.raises(RunError):
        restart(case.loaded, case.loaded.pipeline.sources[-1])
    failed = "The live run failed: disk full. What it committed stays in the table."
    assert look_at(case).verdict.reason == failed


def test_a_restart_does_not_end_a_driver_that_was_launched_after_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine two restarts are under way, and the first one's driver starts slowly."""
    case = LiveCase(tmp_path, {"start_within": "1 ms", "end_stuck_after": "15 min"})
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    assert wait_for_restart(case).restart is not None
    case.launch("b", advanced_at_ms=None)
    waited: list[str] = []
    monkeypatch.setattr(live_run, "resume", lambda *_: waited.append("b"))
    source = case.loaded.pipeline.sources[-1]
    with case.alive_until_stopped():
        assert look_at(case).verdict.down == "stuck"
        restart(case.loaded, source)
        assert live_run.is_live(case.loaded)
        # One that is asked for because of it does.
        asked = Restart(at_ms=now_ms(), replaces="b", why="It is stuck.")
        write_watch(case.generation, case.watch().model_copy(update={"restarts": [asked]}))
        restart(case.loaded, source)
        assert not live_run.is_live(case.loaded)
    assert waited == ["b", "b"]


@pytest.mark.parametrize("answer", [302, 404, 500])
def test_an_alert_that_was_not_taken_is_tried_again_and_stops_nothing(
    tmp_path: Path, hook: Hook, answer: int
) -> None:
    case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": hook.url})
    case.ask_for_it()
    case.launch("a", state="failed")
    hook.answer = answer
    found = look_at(case)
    assert found.restart is not None
    assert found.alert_problem == f"it answers with status {answer}"
    hook.answer = 200
    assert look_at(case).alert_problem is None
    assert [one["health"] for one in hook.told] == ["dead"]


def test_the_webhook_is_told_to_nobody(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}"
        case = LiveCase(tmp_path, {"webhook": "${HOOK}"}, {"HOOK": url})
        case.ask_for_it()
        case.launch("a", state="failed")
        found = look_at(case)
    assert found.alert_problem == "it can't be reached (ConnectionRefusedError)"
    told = f"{found} {status(case.loaded).model_dump_json()} {case.loaded}"
    kept = "".join(path.read_text() for path in (tmp_path / "state").rglob("*.json"))
    assert SECRET not in told + kept


MINUTE = 60_000
STATES = st.lists(
    st.tuples(st.integers(1, 20 * MINUTE), st.sampled_from([None, "dead", "stuck"])),
    min_size=1,
    max_size=40,
)


@given(STATES, st.integers(0, 4), st.booleans())
def test_whatever_happens_restarts_keep_their_distance_and_their_limit(
    states: list[tuple[int, Any]], limit: int, takes_effect: bool
) -> None:
    expected = Supervision(restarts=Restarts(limit=limit, loop=2, backoff=timedelta(seconds=90)))
    watch, at, launches = Watch(requested_ms=0), 0, 0
    done: list[Restart] = []
    for pause, down in states:
        at += pause
        since = watch.down_since_ms if down else None
        seen = [each for each in watch.restarts if each.at_ms > at - 30 * MINUTE]
        changes = {
            "launch_id": str(launches),
            "down_since_ms": (since if since is not None else at) if down else None,
            "restarts": seen,
        }
        verdict = Verdict(health=down or "healthy", reason="r", down=down)
        watch, due = decide(Look(verdict, watch.model_copy(update=changes), at), expected)
        if due is None:
            continue
        assert down is not None
        assert due.at_ms - watch.down_since_ms >= 90_000  # type: ignore[operator]
        if down == "stuck":
            assert due.at_ms - watch.down_since_ms >= 15 * MINUTE  # type: ignore[operator]
        done.append(due)
        launches += takes_effect
        watch = watch.model_copy(update={"down_since_ms": None if takes_effect else at})
    for number, one in enumerate(done):
        window = [each for each in done[: number + 1] if each.at_ms > one.at_ms - 30 * MINUTE]
        assert len(window) <= limit
    if watch.gave_up:
        assert limit == 0 or len(done) >= limit


def test_a_clock_that_is_set_back_delays_no_restart(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.ask_for_it()
    case.launch("a", state="failed", failure=DISK_FULL)
    first = look_at(case).restart
    assert first is not None
    # What this look wrote by a clock that was an hour ahead, of a launch before this one.
    ahead_ms = now_ms() + 3_600_000
    earlier = first.model_copy(update={"at_ms": ahead_ms, "replaces": "before"})
    changes = {"down_since_ms": ahead_ms, "restarts": [earlier]}
    write_watch(case.generation, case.watch().model_copy(update=changes))
    assert look_at(case).restart is not None
    watch = case.watch()
    assert max(each.at_ms for each in watch.restarts) <= now_ms()
    assert watch.down_since_ms is not None
    assert watch.down_since_ms <= now_ms()


def test_waits_grow_up_to_the_longest() -> None:
    restarts = Restarts()
    waits = [restarts.wait(count).total_seconds() for count in range(7)]
    assert waits == [10, 20, 40, 80, 160, 300, 300]


def test_a_run_is_requested_once_people_ask_for_it(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    with pytest.raises(StateError, match="was never started, so it is not started"):
        require_requested(case.generation)
    request(case.generation, "inbox", is_requested=True)
    require_requested(case.generation)


def test_the_status_warns_of_a_setting_that_the_checkpoint_has_another_value_of(
    tmp_path: Path,
) -> None:
    case = LiveCase(tmp_path)
    kept = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "4"}}
    case.generation.replace_bytes("checkpoint/offsets/0", f"v1\n{json.dumps(kept)}\n-".encode())
    declared = "spark: {conf: {spark.sql.shuffle.partitions: '8'}}\n"
    case.path.write_text(f"{case.path.read_text()}{declared}")
    told = " ".join(invoke(["status", str(case.path)]).stdout.split())
    assert "spark.sql.shuffle.partitions: 4, not 8" in told
    assert "hybrid generation new" in told
