"""`hybrid run` starts Spark once, and whatever interrupts it leaves no Spark behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from hybrid_extensions.audit.run import audit
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline
from spark_jobs.launch.launch_record import last_launch
from spark_jobs.launch.submission import submit
from spark_jobs.run_state.driver_lock import is_held, is_launched
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import HISTORY, Case, wrong
from tests.services.processes import all_running, runs, wait_for

pytestmark = [pytest.mark.analysis, pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# Writes down which driver applies it, and does not return while there is a file `hold`.
TRANSFORM = """
import os, time
from pathlib import Path

HERE = Path(__file__).parent

def pids(rows):
    (HERE / f"applied-{os.getpid()}").touch()
    while (HERE / "hold").exists():
        time.sleep(0.05)
    return rows
"""
# `hybrid run`, which kills itself when the driver holds the lock and has not been given its run.
KILLED = """
import os, signal, sys
from orchestration.cli.main import main
from hybrid_extensions.waiting_drivers.driver import AdvanceDriver

AdvanceDriver.run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["hybrid", "run", sys.argv[1]]
main()
"""
HOME = Path(__file__).parents[3]


@pytest.fixture
def loaded(tmp_path: Path, servers: str) -> LoadedPipeline:
    """A pipeline of files alone."""
    case = Case(tmp_path, servers)
    case.write_history()
    (tmp_path / "waits.py").write_text(TRANSFORM)

    def files_only(document: dict[str, Any]) -> None:
        document["sources"] = document["sources"][:1]
        document["transform"] = "waits:pids"

    return case.pipeline(files_only)


@pytest.fixture
def live(tmp_path: Path, servers: str) -> LoadedPipeline:
    """A pipeline that only follows a topic."""
    case = Case(tmp_path, servers)
    case.produce()
    (tmp_path / "waits.py").write_text(TRANSFORM)

    def topic_only(document: dict[str, Any]) -> None:
        document["sources"] = document["sources"][1:]
        columns = {"id": "bigint", "at": "timestamp", "v": "double"}
        document["sources"][0] |= {"start": "earliest", "schema": columns}
        document["transform"] = "waits:pids"

    return case.pipeline(topic_only)


def hybrid(loaded: LoadedPipeline) -> list[str]:
    return [str(Path(sys.executable).with_name("hybrid")), "run", str(loaded.path)]


def drivers(loaded: LoadedPipeline) -> list[int]:
    """The processes that have applied the transform."""
    found = loaded.folder.glob("applied-*")
    return [int(path.name.removeprefix("applied-")) for path in found]


def require_complete(loaded: LoadedPipeline) -> None:
    table = DeltaTable(str(loaded.folder / "out")).to_pyarrow_table(columns=["id"])
    assert sorted(table["id"].to_pylist()) == list(HISTORY)


def require_nothing_left(group: int) -> None:
    def is_there() -> bool:
        return any(each.group == group for each in all_running())

    wait_for(lambda: not is_there(), "the end of Spark's processes", 60)


def launch_in_dagster(loaded: LoadedPipeline) -> None:
    home = loaded.folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    own = {"DAGSTER_HOME": str(home), "HYBRID_PIPELINES": str(loaded.folder)}
    subprocess.run(
        [str(Path(sys.executable).with_name("dg")), "launch", "--job", loaded.pipeline.name],
        check=True,
        cwd=HOME,
        env={**os.environ, **own, "VIRTUAL_ENV": sys.prefix},
        capture_output=True,
    )


def run_by_command(loaded: LoadedPipeline) -> None:
    subprocess.run(hybrid(loaded), check=True, cwd=HOME, capture_output=True)


@pytest.mark.parametrize("run", [run_by_command, launch_in_dagster])
def test_the_driver_that_has_checked_the_transform_reads_history(
    loaded: LoadedPipeline, run: Callable[[LoadedPipeline], None]
) -> None:
    run(loaded)
    generation = loaded.require_generation()
    beat, launch = read_heartbeat(generation, "history"), last_launch(generation)
    assert beat is not None
    assert launch is not None
    assert drivers(loaded) == [beat.pid]
    assert beat.launch_id == launch.launch_id
    assert "WARN" in generation.path("run/history.log").read_text()
    require_complete(loaded)
    assert not is_held(generation)
    assert submit.scratch_folders(generation) == []


def test_the_driver_that_has_checked_the_transform_follows_a_topic(live: LoadedPipeline) -> None:
    try:
        subprocess.run(hybrid(live), check=True, cwd=HOME, capture_output=True)
        beat = read_heartbeat(live.require_generation(), "live")
        assert beat is not None
        assert drivers(live) == [beat.pid]
        assert is_held(live.require_generation())
    finally:
        assert stopping.stop(live) == ["live"]


def test_a_cold_switch_starts_the_next_driver_before_the_one_of_history_has_ended(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(files=12)
    case.produce()

    def cold(document: dict[str, Any]) -> None:
        document["switch"] = "cold"
        document["sources"][0] |= {"batch": {"files": 1}, "rate": {"files": 1}}

    loaded = case.pipeline(cold)
    try:
        command = [*hybrid(loaded), "--until", "caught-up"]
        run = subprocess.Popen(command, cwd=HOME, stderr=subprocess.DEVNULL)
        wait_for(lambda: find_beat(loaded, "live") is not None, "a live driver", 240)
        generation = loaded.require_generation()

        def group() -> int | None:
            launch = last_launch(generation)
            return None if launch is None else launch.group

        # It beats before whoever launched it has written down its process group.
        wait_for(lambda: group() is not None, "the record of the launch", 60)
        launched = group()
        assert launched is not None
        end = generation.path("positions/history-end.json").stat().st_mtime
        assert started_at(launched) < end
        assert run.wait(240) == 0
    finally:
        run.kill()
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})


def find_beat(loaded: LoadedPipeline, source: str) -> Heartbeat | None:
    generation = loaded.open_generation(create=False)
    return None if generation is None else read_heartbeat(generation, source)


def started_at(pid: int) -> float:
    """When a process was started, in seconds since 1970."""
    of_start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + of_start / os.sysconf("SC_CLK_TCK")


@pytest.mark.crash
@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, signal.SIGINT, signal.SIGTERM],
)
def test_an_end_while_the_transform_is_checked_leaves_nothing(
    loaded: LoadedPipeline, how: signal.Signals
) -> None:
    (loaded.folder / "hold").touch()
    run = subprocess.Popen(hybrid(loaded), cwd=HOME, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: bool(drivers(loaded)), "the check of the transform", 120)
        group = os.getpgid(drivers(loaded)[0])
        assert group not in (os.getpgid(0), os.getpgid(run.pid))
        run.send_signal(how)
        run.wait(60)
    finally:
        run.kill()
        (loaded.folder / "hold").unlink()
    require_nothing_left(group)
    assert not (loaded.folder / "state").exists()
    subprocess.run(hybrid(loaded), check=True, cwd=HOME, capture_output=True)
    require_complete(loaded)


@pytest.mark.crash
def test_a_kill_before_the_run_is_given_leaves_a_lock_that_is_free(loaded: LoadedPipeline) -> None:
    command = [sys.executable, "-c", KILLED, str(loaded.path)]
    run = subprocess.run(command, cwd=HOME, check=False, capture_output=True)
    assert run.returncode == -signal.SIGKILL
    generation, (pid,) = loaded.require_generation(), drivers(loaded)
    wait_for(lambda: not runs(pid) and not is_launched(generation), "the end of Spark", 60)
    subprocess.run(hybrid(loaded), check=True, cwd=HOME, capture_output=True)
    require_complete(loaded)


def test_a_plan_that_is_refused_leaves_nothing(loaded: LoadedPipeline) -> None:
    (loaded.folder / "waits.py").write_text(
        TRANSFORM.replace("return rows", "return rows.no_such_method()")
    )
    run = subprocess.run(hybrid(loaded), cwd=HOME, check=False, capture_output=True, text=True)
    assert run.returncode == 2
    assert "waits.py" in run.stderr
    (pid,) = drivers(loaded)
    wait_for(lambda: not runs(pid), "the end of Spark", 60)
    assert not (loaded.folder / "state").exists()
