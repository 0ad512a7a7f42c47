"""Drivers that pipelines share: launches, stops, races and kills, without Spark."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_extensions.shared_drivers import launcher as shared
from hybrid_extensions.shared_drivers import requests as shared_socket
from hybrid_extensions.shared_drivers.requests import RunRequest, folder_of, log_of, pid_of
from hybrid_extensions.shared_drivers.spark.driver import run_pipeline
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError, RunError
from sources.planning.context import PipelineContext
from sources.state.generation import Generation
from spark_jobs.launch.launch_record import LAUNCH, last_launch
from spark_jobs.launch.run_control import find_running, start_detached, stop
from spark_jobs.launch.runs import find_run, last_lines
from spark_jobs.launch.submission import spark_properties, submit
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.hybrid_extensions.shared_drivers import shared_submit
from tests.services.processes import wait_for
from tests.spark_jobs.launch.launch_case import launched, pipeline

pytestmark = pytest.mark.slow
GROUP = "tests"
PATIENCE_S = 120


@pytest.fixture(autouse=True)
def _no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches start the driver's own code without a JVM, with its socket below a long path."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "spark-submit"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {shared_submit.__file__} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / ("cache" * 20)))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setattr(submit, "resolve", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(submit, "with_archive", lambda _home, _jars, conf: conf)
    yield
    if (pid := driver()) is not None:
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def driver() -> int | None:
    """The process of the group's driver."""
    folder = folder_of(GROUP)
    return pid_of(folder) if folder.exists() else None


def member(folder: Path, name: str, **spark: Any) -> LoadedPipeline:
    """A pipeline in a folder of its own, whose runs share a driver."""
    own = folder / name
    own.mkdir(exist_ok=True)
    loaded = pipeline(own, {"driver": "shared", "group": GROUP, **spark})
    document = yaml.safe_load(loaded.path.read_text())
    loaded.path.write_text(yaml.safe_dump({**document, "name": name}))
    loaded = load_pipeline(loaded.path)
    loaded.open_generation(create=True)
    return loaded


def go(loaded: LoadedPipeline) -> Heartbeat:
    return start_detached(loaded, loaded.require_generation(), "inbox")


def end(loaded: LoadedPipeline) -> bool:
    return stop(loaded.require_generation(), "inbox")


def is_free(generation: Generation) -> bool:
    return not is_held(generation) and not is_launched(generation)


def at_once(*tasks: Callable[[], Any]) -> list[Any]:
    """The results of tasks that begin together."""
    results: list[Any] = [None] * len(tasks)
    gate = threading.Barrier(len(tasks))

    def work(number: int) -> None:
        gate.wait()
        results[number] = tasks[number]()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return results


def test_pipelines_of_a_group_run_in_one_process_and_end_one_by_one(tmp_path: Path) -> None:
    one, two = member(tmp_path, "one"), member(tmp_path, "two")
    assert go(one).pid == go(two).pid == driver()
    launch = last_launch(one.require_generation())
    assert launch is not None
    assert launch.place.kind == "shared"
    assert not launch.place.is_cluster
    assert last_lines(one.require_generation(), 5) == ("inbox", "one reads inbox")
    assert end(one)
    assert not is_launched(one.require_generation())
    assert find_run(one.require_generation(), "inbox") is None
    assert find_running(two.require_generation(), "inbox") is not None
    # It comes back into the same process.
    assert go(one).pid == driver()
    assert not end(member(tmp_path, "three"))


def test_launches_at_the_same_time_start_one_process_and_each_pipeline_once(tmp_path: Path) -> None:
    one, two = member(tmp_path, "one"), member(tmp_path, "two")
    beats = at_once(*[lambda each=each: go(each) for each in (one, two, one, two)])
    assert {beat.pid for beat in beats} == {driver()}
    assert beats[0].launch_id == beats[2].launch_id
    assert beats[1].launch_id == beats[3].launch_id


def test_a_killed_process_frees_all_locks_and_each_launch_starts_again_in_one(
    tmp_path: Path,
) -> None:
    pipelines = [member(tmp_path, name) for name in ("one", "two", "three")]
    before = {go(each).pid for each in pipelines}
    (killed,) = before
    os.kill(killed, signal.SIGKILL)
    for each in pipelines:
        generation = each.require_generation()
        wait_for(partial(is_free, generation), "free locks", 30)
        assert find_run(generation, "inbox") is None
    beats = at_once(*[lambda each=each: go(each) for each in pipelines])
    assert {beat.pid for beat in beats} == {driver()} != before


def test_what_differs_is_refused_by_name_as_long_as_others_run(tmp_path: Path) -> None:
    one = member(tmp_path, "one")
    other = member(tmp_path, "two", driver_memory="4g", conf={"spark.a": "s3cr3t"})
    go(one)
    with pytest.raises(InputError) as refused:
        go(other)
    assert "`two` differ in `spark.conf.spark.a` (and 1" in (str(refused.value))
    assert "s3cr3t" not in str(refused.value)
    assert find_running(one.require_generation(), "inbox") is not None
    assert last_launch(other.require_generation()) is None
    # Once nothing runs in it, the driver makes way.
    before = driver()
    end(one)
    assert go(other).pid == driver() != before


def test_a_driver_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shared_submit.BROKEN, "1")
    one = member(tmp_path, "one")
    with pytest.raises(RunError, match="there is no such master"):
        go(one)
    monkeypatch.delenv(shared_submit.BROKEN)
    assert go(one).pid == driver()


def test_a_driver_without_pipelines_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDLE_S", "3")
    one = member(tmp_path, "one")
    first = go(one).pid
    end(one)
    wait_for(lambda: driver() is None, "the driver's end", 120)
    assert go(one).pid == driver() != first


def test_a_run_that_does_not_stop_is_no_reason_to_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "STOP_S", 0.5)
    one, two = member(tmp_path, "one"), member(tmp_path, "two")
    go(one), go(two)
    (one.folder / shared_submit.DEAF).touch()
    with pytest.raises(RunError, match=f"kill -9 {driver()}"):
        end(one)
    assert find_running(two.require_generation(), "inbox") is not None
    (one.folder / shared_submit.DEAF).unlink()
    generation = one.require_generation()
    wait_for(lambda: not is_launched(generation), "the run's end", 30)


def test_a_stop_without_the_launch_record_ends_no_other_run(tmp_path: Path) -> None:
    one, two = member(tmp_path, "one"), member(tmp_path, "two")
    go(one), go(two)
    generation = one.require_generation()
    generation.delete(LAUNCH)
    assert end(one)
    assert is_free(generation)
    assert find_running(two.require_generation(), "inbox") is not None


def test_a_frozen_driver_is_killed_by_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = member(tmp_path, "one"), member(tmp_path, "two")
    go(one), go(two)
    pid = driver()
    assert pid is not None
    monkeypatch.setattr(shared_socket, "ANSWER_S", 0.5)
    os.kill(pid, signal.SIGSTOP)
    assert end(one)
    assert not is_launched(two.require_generation())
    monkeypatch.setattr(shared_socket, "ANSWER_S", 60)
    assert go(two).pid == driver() != pid


def test_the_file_is_read_with_the_variables_of_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(member(tmp_path, "one"))
    monkeypatch.setenv("TABLE", "elsewhere")
    two = member(tmp_path, "two")
    document = yaml.safe_load(two.path.read_text())
    document["about"] = {"description": "${TABLE}"}
    two.path.write_text(yaml.safe_dump(document))
    assert go(load_pipeline(two.path)).state == "running"


def test_what_the_driver_prints_itself_is_in_its_log(tmp_path: Path) -> None:
    go(member(tmp_path, "one"))
    assert log_of(folder_of(GROUP)).exists()
    assert not PipelineContext.require(member(tmp_path, "one")).is_planned


@pytest.mark.parametrize(
    ("spark", "complaint"),
    [
        ({"driver": "shared", "master": "yarn"}, "needs `deploy_mode: client`"),
        ({"group": "a"}, "`group: a` names a shared driver, but `driver` is `own`"),
        ({"driver": "shared", "group": "a/b"}, "group"),
    ],
)
def test_what_can_not_be_shared_is_refused(
    tmp_path: Path, spark: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        pipeline(tmp_path, spark)


@pytest.mark.parametrize(
    ("driver", "master", "given"),
    [
        ("shared", "local[*]", "local[*,2]"),
        ("shared", "local[4]", "local[4,2]"),
        ("shared", "local[4,3]", "local[4,3]"),
        ("own", "local[*]", "local[*]"),
    ],
)
def test_a_task_of_a_shared_driver_has_another_attempt(
    tmp_path: Path, driver: str, master: str, given: str
) -> None:
    loaded = pipeline(tmp_path, {"driver": driver, "master": master})
    assert spark_properties.spark_conf(loaded, tmp_path)["spark.master"] == given


def test_a_run_that_wakes_up_after_a_later_launch_reads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = member(tmp_path, "first")
    generation = loaded.require_generation()
    launched(loaded)
    earlier = RunRequest(
        pipeline="first",
        file=str(loaded.path),
        sources=["inbox"],
        launch_id="earlier",
        generation=generation.name,
        log=str(tmp_path / "log"),
        settings={},
        environment={},
    )
    started: list[str] = []

    def application() -> Any:
        started.append("Spark")

    run_pipeline(earlier, threading.Event(), application)
    assert "Another driver was launched for generation g1" in capsys.readouterr().err
    assert not started
    assert not is_held(generation)
