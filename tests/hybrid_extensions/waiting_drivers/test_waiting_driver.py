"""When a driver that waits is given the run, and when another one is started in its place."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hybrid_extensions.waiting_drivers import driver as waiting_driver
from hybrid_extensions.waiting_drivers.driver import AdvanceDriver
from sources.config.loader import LoadedPipeline
from sources.state.generation import Generation
from spark_jobs.launch.questions import spark_process
from spark_jobs.launch.submission import submit
from spark_jobs.run_state.driver_lock import is_launched, take_launch_lock
from tests.extensions import needs
from tests.minimal import minimal_pipeline
from tests.services.processes import runs, wait_for

# Answers a question by itself, and writes down the run that it is given.
SCRIPT = """
import os, socket, sys
from pathlib import Path
from spark_jobs.launch.user_socket import connect
folder = Path(sys.argv[1])
Path("number").write_text(str(os.getpid()))
with socket.socket(socket.AF_UNIX) as launcher:
    connect(launcher, folder)
    with launcher.makefile("r") as questions, launcher.makefile("w") as answers:
        for line in questions:
            print("got", line.strip(), flush=True)
            if line.startswith("["):
                Path("given").write_text(line)
                break
            answers.write(line)
            answers.flush()
"""


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadedPipeline:
    """A pipeline whose waiting drivers are scripts of Python without Spark."""
    (tmp_path / "shop.py").write_text("def orders(rows):\n    return rows\n")

    def command(_: LoadedPipeline, launch_id: str) -> list[str]:
        return [sys.executable, "-c", SCRIPT, str(submit.scratch_folder(launch_id))]

    monkeypatch.setattr(submit, "waiting_command", command)
    return declared(tmp_path)


def declared(folder: Path, **changes: object) -> LoadedPipeline:
    return minimal_pipeline(
        folder,
        {"type": "files", "name": "history", "path": "in/*", "format": "parquet"},
        transform="shop:orders",
        **changes,
    )


def begun(loaded: LoadedPipeline) -> Generation:
    generation = loaded.open_generation(create=True)
    assert generation is not None
    return generation


def started(loaded: LoadedPipeline) -> tuple[AdvanceDriver, int]:
    """A driver that has answered a question, and its process."""
    driver = AdvanceDriver(loaded)
    assert driver.ask("ready?") == "ready?\n"
    return driver, int((loaded.folder / "number").read_text())


def test_a_waiting_driver_answers_questions_and_then_gets_the_run(loaded: LoadedPipeline) -> None:
    driver, pid = started(loaded)
    generation = begun(loaded)
    scratch = submit.scratch_folder(driver.launch_id)
    with driver:
        lock = driver.take_lock(loaded, generation)
        assert lock is not None
        log = generation.path("run/history.log")
        given, process = driver.run(generation, ["history", "live"], log, {"MORE": "1"})
        lock.hand_over(given)
    # It outlives the context, and has the lock, the log and its folder.
    assert given == pid
    assert process.wait(30) == 0
    arguments, environment = json.loads((loaded.folder / "given").read_text())
    assert environment == {"MORE": "1"}
    assert arguments == submit.job_arguments(
        loaded, ["history", "live"], driver.launch_id, generation.name
    )
    assert "got ready?" in log.read_text()
    assert not is_launched(generation)
    assert submit.scratch_folders(generation) == [scratch]


def test_the_next_one_waits_for_the_lock_of_the_one_that_runs(loaded: LoadedPipeline) -> None:
    generation = begun(loaded)
    present = take_launch_lock(generation, "a")
    assert present is not None
    with AdvanceDriver(loaded) as driver:
        driver.start_next(generation)
        first = driver.launch_id
        driver.start_next(generation)
        assert driver.launch_id == first
        present.release()
        assert not is_launched(generation)
        lock = driver.take_lock(loaded, generation)
        assert lock is not None
        log = generation.path("run/live.log")
        pid, process = driver.run(generation, ["live"], log, {})
        lock.hand_over(pid)
    assert process.wait(30) == 0
    assert "--source" in log.read_text()
    assert not is_launched(generation)


@pytest.mark.parametrize("when", ["waiting", "locked"])
def test_without_a_run_nothing_is_left(loaded: LoadedPipeline, when: str) -> None:
    driver, pid = started(loaded)
    generation = begun(loaded)
    with driver:
        if when == "locked":
            lock = driver.take_lock(loaded, generation)
            assert lock is not None
            lock.release()
            assert is_launched(generation)
    wait_for(lambda: not runs(pid), "the end of the driver")
    assert not is_launched(generation)
    assert not submit.scratch_folder(driver.launch_id).exists()


def change_code(loaded: LoadedPipeline) -> None:
    (loaded.folder / "shop.py").write_text("def orders(rows):\n    return rows.limit(1)\n")


def launch_elsewhere(loaded: LoadedPipeline) -> None:
    lock = begun(loaded).path("run/launch.lock")
    lock.parent.mkdir(parents=True)
    lock.touch()


@pytest.mark.parametrize("change", [change_code, launch_elsewhere])
def test_a_driver_that_does_not_fit_any_more_ends(
    loaded: LoadedPipeline, change: Callable[[LoadedPipeline], None]
) -> None:
    driver, pid = started(loaded)
    generation = begun(loaded)
    change(loaded)
    assert driver.take_lock(loaded, generation) is None
    assert not runs(pid)
    assert not is_launched(generation)


def test_other_properties_of_spark_need_another_driver(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, pid = started(loaded)
    generation = begun(loaded)
    monkeypatch.setattr(submit, "waiting_command", lambda *_: ["other"])
    assert driver.take_lock(loaded, generation) is None
    assert not runs(pid)


def test_a_driver_that_has_ended_is_not_given_the_run(loaded: LoadedPipeline) -> None:
    driver, pid = started(loaded)
    os.kill(pid, 9)
    wait_for(lambda: not runs(pid), "the end of the driver")
    assert driver.ask("still there?") == ""
    assert driver.reason == "its process ended with exit status -9: got ready?"
    assert driver.take_lock(loaded, begun(loaded)) is None


def test_the_plan_is_checked_also_where_no_driver_can_wait(
    loaded: LoadedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "not on this file system")

    monkeypatch.setattr(waiting_driver, "UnnamedFile", refuse)
    monkeypatch.setattr(spark_process, "local_spark_environment", lambda *_: {})
    echo = (sys.executable, "-c", "print(input())")
    monkeypatch.setattr(spark_process, "COMMAND", echo)
    with AdvanceDriver(loaded) as driver:
        assert driver.ask("ready?") == "ready?\n"
        assert driver.take_lock(loaded, begun(loaded)) is None


@needs("s3")
@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"spark": {"master": "spark://host:7077"}}, False),
        ({"spark": {"master": "yarn"}}, False),
        ({"spark": {"driver": "shared"}}, False),
        ({"state": "s3://lake/state"}, False),
        ({"approve": True}, False),
    ],
)
def test_only_runs_of_this_machine_that_nobody_approves_wait(
    loaded: LoadedPipeline, changes: dict[str, object], fits: bool
) -> None:
    assert AdvanceDriver.fits(declared(loaded.folder, **changes)) is fits
