"""Three pipelines in one driver: a failure, a stop and a kill, and every table is exact."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit.run import audit
from hybrid_extensions.shared_drivers.requests import folder_of, pid_of
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.planning.context import PipelineContext
from spark_jobs.launch.run_control import find_running
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import TOPIC, Case, live_of, start_live, windows, wrong
from tests.services.listening import listening, session_of
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.crash,
    pytest.mark.timeout(1800),
]
PATIENCE_S = 300
# One name in all folders, but not one function.
TRANSFORM = """
from pathlib import Path

FAIL = Path(__file__).with_name("fail")

def once_failing(rows):
    def check(batches):
        for batch in batches:
            if FAIL.exists():
                raise ValueError("this pipeline fails")
            yield batch
    return rows.mapInArrow(check, rows.schema)
"""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[str]:
    name = f"e2e-{os.getpid()}"
    yield name
    if folder_of(name).exists() and (pid := pid_of(folder_of(name))) is not None:
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def member(tmp_path: Path, servers: str, group: str, name: str) -> tuple[Case, LoadedPipeline]:
    folder = tmp_path / name
    folder.mkdir()
    case = Case(folder, servers)
    case.write_history()
    case.produce(TOPIC[:1000])

    def edit(document: dict[str, Any]) -> None:
        if name == "windows":
            windows(document)
        if name == "failing":
            (folder / "transforms.py").write_text(TRANSFORM)
            document["transform"] = "transforms:once_failing"
        document["name"] = name
        document["spark"] |= {"driver": "shared", "group": group}
        document["spark"]["conf"]["spark.ui.enabled"] = "true"

    return case, case.pipeline(edit)


def beat_of(loaded: LoadedPipeline) -> Heartbeat:
    beat = find_running(loaded.require_generation(), "live")
    assert beat is not None
    return beat


def is_down(loaded: LoadedPipeline) -> bool:
    return find_running(loaded.require_generation(), "live") is None


def resume(loaded: LoadedPipeline) -> None:
    live_run.go_live(PipelineContext.require(loaded), live_of(loaded))


def test_a_failure_a_stop_and_a_kill_leave_each_table_exact(
    tmp_path: Path, servers: str, group: str
) -> None:
    members = {
        name: member(tmp_path, servers, group, name) for name in ("plain", "windows", "failing")
    }
    every = [loaded for _, loaded in members.values()]
    for loaded in every:
        start_live(loaded)
    (driver,) = {beat_of(loaded).pid for loaded in every}
    assert driver == pid_of(folder_of(group))
    # Spark's UI among them.
    assert listening(session_of(os.getsid(driver))) == {"127.0.0.1"}

    # One fails by its transform: the others read on.
    (tmp_path / "failing" / "fail").touch()
    for case, _ in members.values():
        case.produce(TOPIC[1000:1200])
    failing = members["failing"][1].require_generation()

    def failed() -> bool:
        beat = read_heartbeat(failing, "live")
        return beat is not None and beat.state == "failed"

    wait_for(failed, "the failure", PATIENCE_S)
    beat = read_heartbeat(failing, "live")
    assert beat is not None
    assert "this pipeline fails" in str(beat.failure)
    for name in ("plain", "windows"):
        wait_until_caught_up(PipelineContext.require(members[name][1]))

    # Another one is stopped, and both come back into the same process.
    stopping.stop(members["plain"][1])
    assert is_down(members["plain"][1])
    launch_id = beat_of(members["windows"][1]).launch_id
    (tmp_path / "failing" / "fail").unlink()
    for name in ("plain", "failing"):
        resume(members[name][1])
    assert len({beat_of(loaded).pid for loaded in every}) == 1
    assert beat_of(members["windows"][1]).launch_id == launch_id

    # The process is killed while all of them read.
    for case, _ in members.values():
        case.produce(TOPIC[1200:])
    killed = beat_of(every[0]).pid
    os.kill(killed, signal.SIGKILL)
    for loaded in every:
        wait_for(partial(is_down, loaded), "the death", PATIENCE_S)
    threads = [threading.Thread(target=resume, args=(loaded,)) for loaded in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert {beat_of(loaded).pid for loaded in every} == {pid_of(folder_of(group))} != {killed}
    for loaded in every:
        wait_until_caught_up(PipelineContext.require(loaded))
        stopping.stop(loaded)
        report = audit(load_pipeline(loaded.path))
        assert report.expected > 0
        assert not wrong(report), loaded.pipeline.name
