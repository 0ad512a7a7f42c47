"""Dagster's services are killed under a live run: it goes on, and is looked after again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from dagster import DagsterRun, DagsterRunStatus
from deltalake import DeltaTable

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.keys import RESTART_TAG
from orchestration.operations import stopping
from orchestration.supervision.watch_memory import read_watch
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from spark_jobs.launch import run_control
from spark_jobs.launch.launch_record import last_launch_id
from spark_jobs.run_state.heartbeat import Heartbeat
from spark_jobs.run_state.requested_state import require_requested
from tests.e2e.case import Case, start_live, wrong
from tests.services.dagster_services import NAMES, DagsterServices, Name
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
COMMAND = "python -m pytest tests/e2e/supervision/test_dagster_kills.py"
PATIENCE_S = 1800.0
# Later than the last look before the kill, and a restart of everything on a busy machine.
LOOKED_AFTER_S = 300.0
ROWS = 50


def driver(loaded: LoadedPipeline) -> Heartbeat | None:
    return run_control.find_running(loaded.require_generation(), "live")


def rows_of(loaded: LoadedPipeline) -> int:
    return int(DeltaTable(loaded.target.url).count())


class Watched:
    """A live run with its topic, and each launch of it that was seen."""

    def __init__(self, case: Case, loaded: LoadedPipeline, rows: int) -> None:
        self.loaded = loaded
        self.rows = rows
        self._case = case
        self.launches: list[str | None] = []
        self.see()

    def see(self) -> None:
        if (found := last_launch_id(self.loaded.require_generation())) not in self.launches:
            self.launches.append(found)

    def arrives(self) -> float:
        """Produce some rows; after how long, in s, they are in the table."""
        self._case.produce(range(self.rows, self.rows + ROWS))
        self.rows += ROWS
        return self.until(lambda: rows_of(self.loaded) >= self.rows, f"row {self.rows}")

    def until(self, condition: Callable[[], bool], what: str) -> float:
        """Wait; returns how long that took, in s."""
        begun = time.monotonic()

        def is_met() -> bool:
            self.see()
            return condition()

        wait_for(is_met, lambda: f"{what}; launches: {self.launches}", PATIENCE_S)
        return round(time.monotonic() - begun, 1)


class Instant(NamedTuple):
    """When, in a restart of a driver that is gone, something is killed.

    Attributes:
        of: In words.
        name: What is killed then.
        is_there: Whether it is time; of the watched run, Dagster's services, and the number of
            restarts that were asked for before.
        with_runs: Whether the run of Dagster that launches the driver is killed, too.
    """

    of: str
    name: Name
    is_there: Callable[[LoadedPipeline, DagsterServices, int], bool]
    with_runs: bool = False


def asked(loaded: LoadedPipeline) -> int:
    """How many restarts the supervision has recorded."""
    generation = loaded.require_generation()
    return len(read_watch(generation, require_requested(generation).at_ms).restarts)


def runs_of_restarts(services: DagsterServices) -> list[DagsterRun]:
    return [run for run in services.instance.get_runs() if RESTART_TAG in run.tags]


def is_recorded(loaded: LoadedPipeline, _: DagsterServices, before: int) -> bool:
    return asked(loaded) > before


def is_started(_: LoadedPipeline, services: DagsterServices, before: int) -> bool:
    found = runs_of_restarts(services)
    return len(found) > before and found[0].status is DagsterRunStatus.STARTED


INSTANTS = [
    Instant("once it is recorded", "daemon", is_recorded),
    Instant("once Dagster's run has begun", "daemon", is_started),
    Instant("once Dagster's run has begun", "web server", is_started),
    Instant("once Dagster's run has begun", "code server", is_started),
    Instant("once Dagster's run has begun, which is killed too", "code server", is_started, True),
]


@pytest.mark.timeout(7200)
def test_a_live_run_goes_on_without_dagster_and_is_looked_after_again(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1200))

    def edit(document: dict[str, Any]) -> None:
        restarts = {"backoff": "0 s", "limit": 20, "loop": 20}
        # After it a restart whose run of Dagster is gone is asked for again.
        document["supervision"] = {"restarts": restarts, "start_within": "90 s"}

    loaded = case.pipeline(edit)
    told: list[dict[str, Any]] = []
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        watched = Watched(case, loaded, 1200)
        with DagsterServices(tmp_path / "home", loaded) as services:
            wait_for(lambda: services.looked_since(0), services.said, PATIENCE_S)
            for name in NAMES:
                told.append(_kill_while_well(watched, services, name))
                record("dagster-kills", {"faults": told}, COMMAND)
            assert len(watched.launches) == 1
            for instant in INSTANTS:
                told.append(_kill_in_restart(watched, services, instant))
                record("dagster-kills", {"faults": told}, COMMAND)
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    with duckdb.connect() as connection:
        connection.register("found", DeltaTable(loaded.target.url).to_pyarrow_table())
        query = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM found"
        [numbers] = connection.execute(query).fetchall()
    assert numbers == (watched.rows, watched.rows, 0, watched.rows - 1)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (watched.rows, {})
    late = [each for each in told if each["looked after again, s"] > LOOKED_AFTER_S]
    assert not late


def _kill_while_well(watched: Watched, services: DagsterServices, name: Name) -> dict[str, Any]:
    """Kill a service; nothing else ends, rows arrive, and the next look comes."""
    before = driver(watched.loaded)
    assert before is not None
    since = time.time()
    services.kill(name)
    arrived_s = watched.arrives()
    watched.until(lambda: services.looked_since(since), "a look")
    # A second one: of what the first one saw nothing was restarted either.
    looked_s = round(time.time() - since, 1)
    again = time.time()
    watched.until(lambda: services.looked_since(again) and services.answers(), "all services")
    found = driver(watched.loaded)
    assert found is not None
    assert (found.launch_id, found.pid) == (before.launch_id, before.pid)
    return {
        "killed": name,
        "when": "all is well",
        "rows arrive after, s": arrived_s,
        "looked after again, s": looked_s,
        "launches": 0,
    }


def _kill_in_restart(
    watched: Watched, services: DagsterServices, instant: Instant
) -> dict[str, Any]:
    """Kill the driver, and a service while it is restarted; one other driver takes its place."""
    first = driver(watched.loaded)
    assert first is not None
    known = len(watched.launches)
    before = asked(watched.loaded), len(runs_of_restarts(services))
    os.killpg(os.getpgid(first.pid), signal.SIGKILL)
    count = before[0] if instant.is_there is is_recorded else before[1]
    watched.until(lambda: instant.is_there(watched.loaded, services, count), instant.of)
    since = time.time()
    services.kill(instant.name, with_runs=instant.with_runs)

    def is_back() -> bool:
        found = driver(watched.loaded)
        return found is not None and found.launch_id != first.launch_id and found.state == "running"

    looked_s = watched.until(lambda: services.looked_since(since), "a look")
    back_s = looked_s + watched.until(is_back, "another driver")
    watched.arrives()
    again = time.time()
    watched.until(lambda: services.looked_since(again) and services.answers(), "all services")
    assert is_back()
    launched = len(watched.launches) - known
    assert launched == 1, watched.launches
    return {
        "killed": instant.name,
        "when": f"a restart, {instant.of}",
        "looked after again, s": looked_s,
        "back after, s": round(back_s, 1),
        "launches": launched,
        "asked": asked(watched.loaded) - before[0],
    }
