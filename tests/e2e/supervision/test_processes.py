"""One process of a run is killed, or ended by the kernel for want of memory: told, then exact."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from orchestration.supervision.supervisor import restart, tick
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch
from tests.e2e.case import TRANSFORMS, Case, live_of, start_live, windows, wrong
from tests.e2e.supervision.faults import TOLD_S
from tests.services.memory_limit import MemoryLimit, memory_limit
from tests.services.processes import all_running, runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
COMMAND = "python -m pytest tests/e2e/supervision/test_processes.py"
WELL = ("healthy", "catching-up", "starting")
BACK_S = 900.0
# Rows pass a Python worker: while there is a file `hold`, it says who it is and takes memory.
TRANSFORM = f"""{TRANSFORMS}
def in_workers(rows):
    def pass_on(batches):
        import os, time
        from pathlib import Path
        hold = Path(__file__).with_name("hold")
        for batch in batches:
            while hold.exists():
                hold.with_name("worker").write_text(str(os.getpid()))
                needed = b"x" * (8 << 20)
                time.sleep(0.05)
            yield batch
    return hourly(rows.mapInArrow(pass_on, rows.schema))
"""


def python_of(loaded: LoadedPipeline, _: Path) -> int:
    """The driver's Python."""
    found = run_control.find_running(loaded.require_generation(), "live")
    assert found is not None
    return found.pid


def jvm_of(loaded: LoadedPipeline, _: Path) -> int:
    """The driver's JVM, which has started its Python, and the daemon of the workers."""
    launch = last_launch(loaded.require_generation())
    assert launch is not None
    assert launch.group is not None
    return launch.group


def worker_daemon_of(loaded: LoadedPipeline, folder: Path) -> int:
    """The process of which Python workers are forks."""
    jvm = jvm_of(loaded, folder)
    [found] = [
        each.pid
        for each in all_running()
        if each.parent == jvm and "spark_jobs.inside.worker_daemon" in each.command
    ]
    return found


def worker_of(_: LoadedPipeline, folder: Path) -> int:
    """The Python worker that runs the task of a micro-batch."""
    said = folder / "worker"
    wait_for(lambda: said.exists() and bool(said.read_text()), "a worker with a task", BACK_S)
    return int(said.read_text())


class Fault(NamedTuple):
    """A process that is ended.

    Attributes:
        of: What it is.
        find: Finds it.
        is_oom: Whether the kernel ends it, as it needs memory; else it gets SIGKILL.
        is_restarted: Whether the run has to end by it, and to be restarted.
    """

    of: str
    find: Callable[[LoadedPipeline, Path], int]
    is_oom: bool = False
    is_restarted: bool = True


VICTIMS = [
    Fault("the driver's Python", python_of),
    Fault("the driver's JVM", jvm_of),
    Fault("the daemon of the Python workers", worker_daemon_of, is_restarted=False),
    Fault("a Python worker with a task", worker_of),
]
# What needs memory is what computes.
FAULTS = [*VICTIMS, VICTIMS[-1]._replace(is_oom=True)]


def follow(loaded: LoadedPipeline) -> dict[str, Any]:
    """Do what Dagster's sensor does at its ticks until the run is well; what was told, and when."""
    begun = time.monotonic()
    told: dict[str, Any] = {"health": [], "named after, s": None, "reason": "", "restarts": 0}

    def past_s() -> float:
        return round(time.monotonic() - begun, 1)

    def note(health: str, reason: str) -> None:
        if told["health"][-1:] != [health]:
            told["health"].append(health)
        if told["named after, s"] is None and health not in WELL:
            told.update({"named after, s": past_s(), "reason": reason})

    def is_well() -> bool:
        try:
            found = tick(loaded)
            assert found is not None
            note(found.verdict.health, found.verdict.reason)
            if found.restart is not None:
                told["restarts"] += 1
                restart(loaded, live_of(loaded))
                return False
        except HybridError as error:
            note("unknown", str(error))
            return False
        return (found.verdict.health, found.verdict.numbers.get("lag")) == ("healthy", 0)

    wait_for(is_well, lambda: f"a run that has caught up: {told}", BACK_S)
    return {**told, "caught up after, s": past_s()}


def end(pid: int, limit: MemoryLimit | None) -> None:
    if limit is not None:
        limit.kill(pid)
        return
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not runs(pid), f"the end of process {pid}")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_oom", [False, True], ids=["killed", "out of memory"])
def test_whichever_process_is_gone_the_run_is_back_and_exact(
    tmp_path: Path, servers: str, *, is_oom: bool
) -> None:
    case = Case(tmp_path, servers)
    (tmp_path / "transforms.py").write_text(TRANSFORM)
    case.write_history()
    case.produce(range(500, 1000))
    faults = [each for each in FAULTS if each.is_oom == is_oom]

    def edit(document: dict[str, Any]) -> None:
        windows(document)
        document["transform"] = "transforms:in_workers"
        restarts = {"backoff": "0 s", "limit": 4 * len(faults), "loop": 4 * len(faults)}
        document["supervision"] = {"restarts": restarts}

    loaded = case.pipeline(edit)
    told: list[dict[str, Any]] = []
    hold = tmp_path / "hold"
    last = 1000

    def produce() -> None:
        nonlocal last
        case.produce(range(last, last + 60))
        last += 60

    with memory_limit() if is_oom else nullcontext() as limit:
        try:
            start_live(loaded)
            wait_until_caught_up(PipelineContext.require(loaded))
            for fault in faults:
                (tmp_path / "worker").unlink(missing_ok=True)
                if fault.find is worker_of:
                    hold.touch()
                    produce()
                end(fault.find(loaded, tmp_path), limit)
                hold.unlink(missing_ok=True)
                # Only a run that still reads has these.
                produce()
                told.append({"process": fault.of, **follow(loaded)})
                record(f"processes-{'oom' if is_oom else 'killed'}", {"faults": told}, COMMAND)
        finally:
            stopping.stop(loaded)
    report = audit(loaded)
    assert report.expected > 0
    assert wrong(report) == {}
    for fault, found in zip(faults, told, strict=True):
        assert found["restarts"] == fault.is_restarted, found
        # What Spark mends by itself need not be told.
        assert not fault.is_restarted or found["named after, s"] <= TOLD_S, found
