"""Airflow's own servers: scheduler with LocalExecutor, DAG processor, API server and triggerer."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hybrid_extensions.servers.process import HOST, end, free_ports, spawn
from tests.services.processes import wait_for

START_S = 600.0
PATIENCE_S = 900.0


class Airflow:
    """An installed Airflow with a home of its own, whose DAGs are in ``home/dags``.

    Args:
        programs: Folder of the programs of Airflow's environment.
        home: Its configuration, database and logs.
        packages: Folder with the provider.
        variables: More environment variables, such as those that the DAGs read.
    """

    def __init__(
        self, programs: Path, home: Path, packages: Path, variables: Mapping[str, str]
    ) -> None:
        self.dags = home / "dags"
        self.dags.mkdir(parents=True)
        self._program = programs / "airflow"
        self._log = home / "airflow.log"
        self._port, workers_port, triggerer_port = free_ports(3)
        settings = {
            "api__base_url": f"http://{HOST}:{self._port}",
            "api__host": HOST,
            "api__port": str(self._port),
            "api__workers": "1",
            "core__dags_are_paused_at_creation": "False",
            "core__dags_folder": str(self.dags),
            "core__execution_api_server_url": f"http://{HOST}:{self._port}/execution/",
            "core__executor": "LocalExecutor",
            "core__load_examples": "False",
            "core__parallelism": "2",
            "core__simple_auth_manager_all_admins": "True",
            "dag_processor__min_file_process_interval": "600",
            "dag_processor__refresh_interval": "5",
            "logging__trigger_log_server_port": str(triggerer_port),
            "logging__worker_log_server_port": str(workers_port),
            # A worker that was killed is noticed after this time: 300 s by default.
            "scheduler__task_instance_heartbeat_sec": "3",
            "scheduler__task_instance_heartbeat_timeout": "30",
            "scheduler__task_instance_heartbeat_timeout_detection_interval": "3",
            "usage_data_collection__enabled": "False",
            # A task fails if the API server of a busy machine does not answer in time.
            "workers__execution_api_timeout": "60",
        }
        self._environment = {
            # Airflow's programs call each other by name.
            **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(packages),
            "AIRFLOW_HOME": str(home),
            **{f"AIRFLOW__{name.upper()}": value for name, value in settings.items()},
            **variables,
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of Airflow's commands to its end."""
        return subprocess.run(
            [str(self._program), *arguments],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run all of Airflow's servers until the end of the block."""
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        process = spawn(["env", "-i", *variables, str(self._program), "standalone"], self._log)
        try:
            wait_for(self._is_healthy, f"Airflow is up\n{self._log}", START_S)
            yield
        finally:
            end(process)

    def state(self, dag: str, task: str) -> str | None:
        """State of a task in the latest run of its DAG; None before there is one."""
        found = self.latest(dag)
        return None if found is None else self.states(dag, found).get(task)

    def latest(self, dag: str) -> str | None:
        """Id of the latest run of a DAG; None if there is none, or no such DAG yet."""
        runs = self.runs(dag)
        return runs[-1] if runs else None

    def runs(self, dag: str) -> list[str]:
        """Ids of the runs of a DAG, oldest first."""
        found = self._get(f"dags/{dag}/dagRuns?order_by=run_after")
        return [] if found is None else [run["dag_run_id"] for run in found["dag_runs"]]

    def states(self, dag: str, run: str) -> dict[str, str]:
        """State of each task of a run of a DAG."""
        return {task: found["state"] for task, found in self._tasks(dag, run).items()}

    def attempts(self, dag: str, run: str) -> dict[str, int]:
        """How often each task of a run of a DAG was begun."""
        return {task: found["try_number"] for task, found in self._tasks(dag, run).items()}

    def wait_for(self, dag: str, task: str, state: str, run: str | None = None) -> None:
        """Wait until a task is in a state, in a run of its DAG or in the latest one."""
        what = f"{task} of {dag} is {state}\n{self._log}"

        def found() -> str | None:
            return self.state(dag, task) if run is None else self.states(dag, run).get(task)

        wait_for(lambda: found() == state, what, PATIENCE_S)

    def clear(self, dag: str, run: str, tasks: Iterable[str]) -> None:
        """Clear tasks of a run, so that they run again."""
        body = {"dry_run": False, "dag_run_id": run, "task_ids": [*tasks], "only_failed": False}
        self._send("POST", f"dags/{dag}/clearTaskInstances", body)

    def mark(self, dag: str, run: str, task: str, state: str) -> None:
        """Set the state of a task, as people do in the UI."""
        self._send("PATCH", f"dags/{dag}/dagRuns/{run}/taskInstances/{task}", {"new_state": state})

    def pause(self, dag: str, *, is_paused: bool = True) -> None:
        """Let Airflow begin no run and no task of a DAG; or let it begin them again."""
        self._send("PATCH", f"dags/{dag}", {"is_paused": is_paused})

    def _tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        found = self._get(f"dags/{dag}/dagRuns/{run}/taskInstances")
        return {} if found is None else {each["task_id"]: each for each in found["task_instances"]}

    def _is_healthy(self) -> bool:
        found = self._get("monitor/health")
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return found is not None and all(found[part]["status"] == "healthy" for part in parts)

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            return self._send("GET", path)
        except OSError:
            return None

    def _send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{HOST}:{self._port}/auth/token", timeout=30) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(
            f"http://{HOST}:{self._port}/api/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        assert isinstance(found, dict)
        return found
