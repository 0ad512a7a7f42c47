"""Dagster as services of a machine: web server, code server and daemon, each started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

import yaml
from dagster import DagsterInstance
from dagster._core.scheduler.instigation import TickStatus

from hybrid_extensions.servers.process import HOST, free_ports, last_lines
from sources.config.loader import LoadedPipeline
from tests.services.processes import wait_for

ROOT = Path(__file__).parents[2]
LOCATION = "hybrid_backfill"
Name = Literal["web server", "code server", "daemon"]
NAMES: tuple[Name, ...] = ("web server", "code server", "daemon")
_LOOK_S = 0.2


class DagsterServices:
    """The three, as a context manager that starts whatever has ended, as a service manager does.

    Args:
        home: Dagster's folder, which is made.
        loaded: The pipeline that it shows and supervises.
    """

    def __init__(self, home: Path, loaded: LoadedPipeline) -> None:
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        self._home = home
        web, code = map(str, free_ports(2))
        server = {"host": HOST, "port": int(code), "location_name": LOCATION}
        workspace = home / "workspace.yaml"
        workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
        definitions = ["-f", str(ROOT / "orchestration" / "definitions.py"), "-d", str(ROOT)]
        programs = Path(sys.executable).parent
        self._commands: Mapping[Name, list[str]] = {
            "code server": [
                sys.executable, "-m", "dagster", "api", "grpc", "-h", HOST, "-p", code,
                *definitions, "--location-name", LOCATION,
            ],
            "web server": [
                str(programs / "dagster-webserver"), "-w", str(workspace), "-h", HOST, "-p", web
            ],
            "daemon": [str(programs / "dagster-daemon"), "run", "-w", str(workspace)],
        }  # fmt: skip
        self._url = f"http://{HOST}:{web}/server_info"
        self._environment = {
            **os.environ,
            "DAGSTER_HOME": str(home),
            "HYBRID_PIPELINES": str(loaded.path),
            "PYTHONPATH": str(ROOT),
        }
        self._running: dict[Name, subprocess.Popen[bytes]] = {}
        self._is_over = threading.Event()
        self._manager = threading.Thread(target=self._manage, daemon=True)

    def __enter__(self) -> Self:
        # Makes Dagster's database before several processes try to.
        self.instance = DagsterInstance.from_config(str(self._home))
        for name in NAMES:
            self._start(name)
        self._manager.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._manager.join()
        for each in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
        self.instance.dispose()

    def kill(self, name: Name, *, with_runs: bool = False) -> None:
        """End it by SIGKILL; another one is started at once.

        Args:
            name: Which one.
            with_runs: Whether the processes of Dagster's runs end with it, which the code server
                has started.
        """
        killed = self._running[name]
        (os.killpg if with_runs else os.kill)(killed.pid, signal.SIGKILL)
        wait_for(lambda: self._running[name] is not killed, f"another {name}")

    def answers(self) -> bool:
        """Whether the web server does."""
        try:
            return bool(urllib.request.urlopen(self._url, timeout=5).status == 200)
        except OSError:
            return False

    def looked_since(self, since: float) -> bool:
        """Whether the sensor has looked at the pipeline, without an error.

        Args:
            since: A look that began before does not count; seconds since 1970.
        """
        return any(
            tick.timestamp > since and tick.status in (TickStatus.SKIPPED, TickStatus.SUCCESS)
            for state in self.instance.all_instigator_state()
            for tick in self.instance.get_ticks(
                state.instigator_origin_id, state.selector_id, limit=5
            )
        )

    def said(self) -> str:
        """The last lines of each."""
        logs = [self._log(name) for name in NAMES]
        return "\n".join(f"{each}:\n{last_lines(each.read_bytes())}" for each in logs)

    def _log(self, name: Name) -> Path:
        return self._home / f"{name}.log"

    def _start(self, name: Name) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                cwd=ROOT, env=self._environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _manage(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for name, process in list(self._running.items()):
                if process.poll() is not None:
                    self._start(name)
