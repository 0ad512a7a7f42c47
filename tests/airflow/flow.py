"""A small pipeline, and the example's DAG over it, in an Airflow of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.airflow.server import PATIENCE_S, Airflow
from tests.e2e.case import Case
from tests.services.processes import all_running, wait_for

ROOT = Path(__file__).parents[2]
DAG = "flight_events"
STEPS = ["plan", "history", "live_handover", "live"]
# From the second micro-batch on, no row of history passes while there is a file `hold`.
HELD = """
def held(rows):
    def wait(batches):
        import time
        from pathlib import Path
        for batch in batches:
            late = any(500 <= n < 1000 for n in batch.column("id").to_pylist())
            while late and Path(__file__).with_name("hold").exists():
                time.sleep(0.05)
            yield batch
    return rows.mapInArrow(wait, rows.schema)
"""
DOWNSTREAM = """
from airflow.sdk import DAG, Asset
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("downstream", schedule=[Asset("flight_events")]):
    EmptyOperator(task_id="use")
"""


class Flow:
    """The example's DAG over a pipeline with history 0…999 in files and 500…1199 in a topic.

    Args:
        folder: Of the pipeline and of Airflow's home.
        servers: Address of the broker.
        programs: Airflow's programs.
        packages: Folder with the provider.
        watch_for: How long ``watch`` watches, as a ``timedelta`` in Python.
    """

    def __init__(
        self, folder: Path, servers: str, programs: Path, packages: Path, watch_for: str
    ) -> None:
        self.case = Case(folder, servers)
        self.case.write_history()
        self.case.produce(range(500, 1200))
        (folder / "transforms.py").write_text(HELD)
        self.hold = folder / "hold"
        held = {"transform": "transforms:held"}
        self.loaded = self.case.pipeline(lambda document: document.update(held))
        self._hybrid = folder / "hybrid"
        self._hybrid.write_text(
            f'#!/bin/sh\necho "$1" >> {folder}/calls\nPYTHONPATH={ROOT} exec {sys.executable} -c '
            "'from orchestration.cli.main import main; main()' \"$@\"\n"
        )
        self._hybrid.chmod(0o755)
        self._calls = folder / "calls"
        variables = {"PIPELINE": str(self.loaded.path), "HYBRID": str(self._hybrid)}
        self.airflow = Airflow(programs, folder / "airflow", packages, variables)
        example = (ROOT / "examples" / "airflow_dag.py").read_text()
        # The same DAG in a hurry, and patient with a busy machine.
        for text, quicker in {
            "schedule=timedelta(minutes=10)": "schedule=timedelta(seconds=20)",
            '"retries": 2': '"retries": 5',
            '"retry_delay": timedelta(minutes=1)': '"retry_delay": timedelta(seconds=1)',
            "watch_for=timedelta(hours=1)": f"watch_for={watch_for}, interval=timedelta(seconds=2)",
        }.items():
            assert text in example
            example = example.replace(text, quicker)
        self._example = example

    def add_dags(self) -> None:
        """Put the DAGs in place; Airflow begins to run them, if its servers are up."""
        (self.airflow.dags / "downstream.py").write_text(DOWNSTREAM)
        (self.airflow.dags / "flight_events.py").write_text(self._example)

    def hybrid(self, *arguments: str) -> dict[str, Any]:
        """Run a command on the pipeline; returns its document."""
        name, *rest = arguments
        command = [str(self._hybrid), name, str(self.loaded.path), *rest, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        return answer

    def looks(self) -> int:
        """How often the status was asked for."""
        return self._calls.read_text().split().count("status")

    def wait_until_held(self) -> Heartbeat:
        """Wait until the first micro-batch of history is committed; the second is held."""
        wait_for(lambda: _batches(self.driver("history")) == 1, "history", PATIENCE_S)
        found = self.driver("history")
        assert found is not None
        return found

    def driver(self, source: str) -> Heartbeat | None:
        """Heartbeat of the driver of a source; None if none runs."""
        generation = self.loaded.open_generation(create=False)
        return None if generation is None else run_control.find_running(generation, source)

    def commands(self, step: str) -> list[int]:
        """Processes of the commands of a step that are under way."""
        words = f"main() step {self.loaded.path} {step} --json"
        return [each.pid for each in all_running() if each.command.endswith(words)]

    def task_processes(self, step: str) -> list[int]:
        """The command of a step that is under way, its task, and the worker that runs the task."""
        (command,) = self.commands(step)
        task = _parent(command)
        return [command, task, _parent(task)]


def _batches(beat: Heartbeat | None) -> int | None:
    return None if beat is None else beat.batches


def _parent(pid: int) -> int:
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
