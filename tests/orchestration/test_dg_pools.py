"""A limit on the pool `spark` in `dagster.yaml`, with Dagster's daemon and runs in processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from hybrid_extensions.servers.process import end, spawn
from orchestration.defs.keys import POOL
from tests.orchestration.generations.generation_case import GenerationCase
from tests.services.processes import wait_for

ROOT = Path(__file__).parents[2]
DEADLINE_S = 180
# In place of a Spark run: a file says that it has begun, another one ends it.
LOCATION = """\
import time
from pathlib import Path

import dagster as dg

from orchestration.chain import BoundedStep
from sources.errors import InputError

HERE = Path(__file__).parent


def run(step, chain):
    name = chain.loaded.pipeline.name
    (HERE / f"{name}.begun").touch()
    while not (HERE / f"{name}.end").exists():
        time.sleep(0.1)
    raise InputError("The test has ended this run.")


BoundedStep.run = run

from orchestration import definitions

HISTORIES = [dg.AssetKey([name, "history"]) for name in ("one", "two")]


@dg.sensor(
    asset_selection=dg.AssetSelection.assets(*HISTORIES),
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def both():
    for key in HISTORIES:
        yield dg.RunRequest(run_key=key.path[0], asset_selection=[key])


defs = dg.Definitions.merge(definitions.defs, dg.Definitions(sensors=[both]))
"""

pytestmark = [pytest.mark.slow]


@contextmanager
def daemon(home: Path, pipelines: list[Path]) -> Iterator[None]:
    """Dagster's daemon, with a location of these pipelines."""
    (home / "location.py").write_text(LOCATION)
    location = {"python_file": {"relative_path": "location.py"}}
    (home / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [location]}))
    words = [
        f"DAGSTER_HOME={home}",
        f"PYTHONPATH={ROOT}",
        f"HYBRID_PIPELINES={os.pathsep.join(map(str, pipelines))}",
    ]
    command = [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-w"]
    started = spawn(["env", *words, *command, str(home / "workspace.yaml")], home / "daemon.log")
    try:
        yield
    finally:
        end(started)


@pytest.mark.parametrize("granularity", ["op", "run"])
def test_with_a_limit_of_one_the_spark_steps_of_two_chains_do_not_overlap(
    tmp_path: Path, granularity: str
) -> None:
    pipelines = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        case = GenerationCase(tmp_path / name)
        case.write(name=name)
        pipelines.append(case.folder / "events.yaml")
    home = tmp_path / "home"
    home.mkdir()
    pools = {"granularity": granularity, "default_limit": 1}
    settings = {"telemetry": {"enabled": False}, "concurrency": {"pools": pools}}
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))

    def begun() -> set[str]:
        return {file.stem for file in home.glob("*.begun")}

    with DagsterInstance.from_config(str(home)) as instance:
        if granularity == "run":
            # The queue applies the default only after its first look at runs with the pool.
            instance.event_log_storage.set_concurrency_slots(POOL, 1)

        def one_waits() -> bool:
            if granularity == "op":
                waiting = instance.event_log_storage.get_concurrency_info(POOL).pending_step_count
            else:
                queued = RunsFilter(statuses=[DagsterRunStatus.QUEUED])
                waiting = instance.get_runs_count(queued)
            return len(begun()) == 1 and waiting == 1

        with daemon(home, pipelines):
            wait_for(one_waits, "one step that runs, and one that waits", DEADLINE_S)
            (first,) = begun()
            (home / f"{first}.end").touch()
            wait_for(lambda: len(begun()) == 2, "the other step", DEADLINE_S)
            (second,) = begun() - {first}
            (home / f"{second}.end").touch()
            ended = RunsFilter(statuses=[DagsterRunStatus.FAILURE])
            wait_for(lambda: instance.get_runs_count(ended) == 2, "both ends", DEADLINE_S)
