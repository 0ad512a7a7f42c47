"""Process ids are used again: only the process that holds the lock is ended as a driver."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from sources.common.times import now_ms
from sources.errors import RunError, StateError
from sources.state.generation import Generation
from spark_jobs.launch import run_control
from spark_jobs.launch import runs as launches
from spark_jobs.launch.launch_record import LAUNCH, Launch
from spark_jobs.launch.places import local
from spark_jobs.launch.runs import find_run
from spark_jobs.run_state.driver_lock import LEASE, QueryLock, take_launch_lock
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from spark_jobs.run_state.lease import LeaseRecord
from tests.orchestration.supervision.live_case import LiveCase
from tests.services.processes import NEVER_ENDS, runs, wait_for

HOLD = f"""
import sys
from pathlib import Path
from sources.config.loader import load_pipeline
from spark_jobs.run_state.driver_lock import QueryLock
with QueryLock(load_pipeline(Path(sys.argv[1])).require_generation()):
    print("held", flush=True)
    {NEVER_ENDS}
"""


GONE = 4_000_000
"""A number that no process has."""
STOP = """
import sys
from pathlib import Path
from sources.config.loader import load_pipeline
from spark_jobs.launch import run_control
run_control.stop(load_pipeline(Path(sys.argv[1])).require_generation(), "inbox")
"""
# With process numbers of its own, and the name of this machine.
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", NEVER_ENDS]
    with subprocess.Popen(command, start_new_session=True) as made:
        yield made
        made.kill()


@pytest.fixture
def case(tmp_path: Path) -> LiveCase:
    return LiveCase(tmp_path)


def test_a_driver_that_has_not_reported_yet_is_not_ended_by_the_number_of_the_one_before(
    case: LiveCase, stranger: subprocess.Popen[bytes]
) -> None:
    case.launch("before", pid=stranger.pid)
    case.generation.delete(LAUNCH)
    with case.alive(), pytest.raises(RunError, match=f"it is not process {stranger.pid}"):
        run_control.stop(case.generation, "inbox")
    assert runs(stranger.pid)
    assert not run_control.stop(case.generation, "inbox"), "no driver is there any more"
    assert runs(stranger.pid)


def test_a_driver_that_has_just_been_started_is_not_said_to_be_gone_with_the_one_before(
    case: LiveCase, stranger: subprocess.Popen[bytes]
) -> None:
    stranger.kill()
    stranger.wait()
    case.launch("before", pid=stranger.pid)
    case.generation.delete(LAUNCH)
    told = f"it is not process {stranger.pid}, .* it has just been started"
    with case.alive(), pytest.raises(RunError, match=told):
        run_control.stop(case.generation, "inbox")


def test_a_driver_without_a_record_is_not_named_by_the_heartbeat_of_the_one_before(
    case: LiveCase, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "GRACE_S", 0.0)
    case.launch("before", pid=stranger.pid)
    case.generation.delete(LAUNCH)
    lock = take_launch_lock(case.generation, "by hand")
    assert lock is not None
    with (
        case.alive(),
        pytest.raises(StateError, match=r"runs \(in an unknown process\)") as refused,
    ):
        launches.find_or_launch(case.loaded, case.generation, ["inbox"], {})
    lock.release()
    assert f"kill {stranger.pid}" not in refused.value.hint
    assert "end it where it runs" in refused.value.hint


def test_a_driver_in_another_container_is_not_said_to_be_gone(case: LiveCase) -> None:
    if subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process may have process numbers of its own here")
    command = [sys.executable, "-c", HOLD, str(case.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"held\n"
        case.launch("there", pid=driver.pid)
        case.generation.delete(LAUNCH)
        ended = subprocess.run(
            [*CONTAINER, sys.executable, "-c", STOP, str(case.path)],
            capture_output=True,
            text=True,
            check=False,
        )
        is_there = driver.poll() is None
        driver.kill()
    assert is_there
    lock = case.generation.path("run/query.lock")
    assert f"no process that is seen from here holds its lock {lock}, so it runs in" in ended.stderr


@pytest.mark.parametrize(
    ("machine", "told"),
    [(None, "it has just been started"), ("another one", "no process that is seen from here")],
)
def test_whoever_renews_the_lease_is_the_driver(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch, machine: str | None, told: str
) -> None:
    monkeypatch.setattr(Generation, "is_local", False)
    monkeypatch.setattr(run_control, "_RELEASE_S", 0.1)
    case.launch("there", pid=GONE)
    case.generation.delete(LAUNCH)
    with QueryLock(case.generation, "there"):
        if machine is not None:
            held = case.generation.read(LEASE, LeaseRecord)
            assert held is not None
            case.generation.replace(LEASE, held.model_copy(update={"machine": machine}))
        with pytest.raises(RunError, match=told):
            run_control.stop(case.generation, "inbox")


def test_a_driver_that_was_started_by_hand_is_ended(case: LiveCase) -> None:
    command = [sys.executable, "-c", HOLD, str(case.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"held\n"
        case.launch("by hand", pid=driver.pid)
        case.generation.delete(LAUNCH)
        assert run_control.stop(case.generation, "inbox")
        assert driver.wait(60) != 0


@pytest.mark.parametrize("host", [socket.gethostname(), "elsewhere"], ids=["here", "elsewhere"])
@pytest.mark.parametrize("is_local", [True, False], ids=["locks", "lease"])
def test_what_a_killed_driver_said_last_of_history_keeps_nobody_from_a_stop(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch, *, is_local: bool, host: str
) -> None:
    monkeypatch.setattr(Generation, "is_local", is_local)
    monkeypatch.setattr(run_control, "_RELEASE_S", 0.1)
    case.launch("killed", pid=GONE, host=host, source="history")
    said = case.generation.read(heartbeat_name("inbox"), Heartbeat)
    assert said is not None
    case.generation.replace(heartbeat_name("history"), said)
    case.launch("live", pid=os.getpid())
    launched = take_launch_lock(case.generation, "live")
    assert launched is not None
    with QueryLock(case.generation, "live"):
        assert run_control.find_running(case.generation, "inbox") is not None
        assert run_control.find_running(case.generation, "history") is None
        assert not run_control.stop(case.generation, "history")
        case.generation.delete(LAUNCH)
        case.launch("killed", pid=GONE, host=host)
        case.generation.delete(LAUNCH)
        # Of one that was started by hand nothing else is known.
        with pytest.raises(RunError) if is_local else nullcontext():
            run_control.stop(case.generation, "history")
    launched.release()


def test_a_launch_that_lost_its_lease_before_it_was_recorded_is_not_waited_for(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Generation, "is_local", False)
    # Another process launched a driver meanwhile.
    with QueryLock(case.generation, "another"):
        recorded = Launch(launch_id="late", source="inbox", log="l", group=None, at_ms=now_ms())
        case.generation.replace(LAUNCH, recorded)
        assert find_run(case.generation, "inbox") is None
        case.generation.replace(LAUNCH, recorded.model_copy(update={"launch_id": "another"}))
        assert find_run(case.generation, "inbox") is not None


def test_a_heartbeat_that_names_a_stranger_ends_the_run_and_not_the_stranger(
    case: LiveCase, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", HOLD, str(case.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"held\n"
        case.launch("a", pid=stranger.pid)
        record = case.generation.read(LAUNCH, Launch)
        assert record is not None
        record = record.model_copy(update={"group": driver.pid})
        monkeypatch.setattr(local, "is_launched", lambda _: driver.poll() is None)
        launcher = local.LocalLauncher(case.generation, case.path)
        launcher.stop(record)
        wait_for(lambda: driver.poll() is not None, "the end of the driver")
    assert runs(stranger.pid)


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_that_stands_for_many_processes_is_no_document(
    case: LiveCase, number: int
) -> None:
    case.launch("a", pid=7)
    beat = case.generation.read_bytes(heartbeat_name("inbox"))
    assert beat is not None
    with pytest.raises(StateError, match="`pid`: Input should be greater than 0"):
        Heartbeat.parse(beat.replace(b'"pid": 7', b'"pid": %d' % number))
    launch = case.generation.read_bytes(LAUNCH)
    assert launch is not None
    with pytest.raises(StateError, match="`group`: Input should be greater than 1"):
        Launch.parse(launch.replace(b'"group": null', b'"group": %d' % number))
