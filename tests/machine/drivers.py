"""Drivers inside this process: what a launch starts, without ``spark-submit``.

The launch itself, its locks, records and heartbeats are the real ones. A driver is either the
job's own code in a thread (:mod:`tests.machine.spark_driver`), or a model that reads the same plan
and writes the same checkpoint files and transactions (:mod:`tests.machine.model_driver`).
"""

from __future__ import annotations

import os
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

from orchestration import chain
from sources.config.loader import LoadedPipeline
from spark_jobs.jvm import java
from spark_jobs.launch import run_control, runs
from spark_jobs.launch.launch_record import Launch
from spark_jobs.launch.places import local
from spark_jobs.launch.places.base import Order
from spark_jobs.launch.submission import submit

NO_PROCESS = 2**30
"""A process id beyond all that there are."""


_java_version = cache(java.java_version)


class Driver(Protocol):
    """A driver that was started.

    Attributes:
        pid: A number that belongs to no process.
    """

    pid: int

    def poll(self) -> int | None:
        """Return its exit status; None while it runs."""

    def wait(self) -> int:
        """Wait for its end; return its exit status."""

    def stop(self) -> None:
        """End it as SIGTERM does."""

    def kill(self) -> None:
        """End it as SIGKILL does: its locks are free, and it reports nothing."""


class Machine(Protocol):
    """Where drivers run: starts one for each launch."""

    def start(self, pipeline: Path, sources: list[str], launch_id: str, lock: int) -> Driver:
        """Start a driver; it holds its own copy of the launch lock until it ends."""


class Fleet:
    """All drivers of one machine, found again by their launch.

    Args:
        machine: Starts them.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.drivers: dict[str, Driver] = {}

    def start(self, order: Order) -> Driver:
        """Start what a launch ordered; stands for ``spark_jobs.launch.places.base.start``."""
        pipeline, launch_id, *sources = order.command
        order.log.touch()
        lock = os.dup(order.descriptors[0])
        driver = self._machine.start(Path(pipeline), sources, launch_id, lock)
        self.drivers[launch_id] = driver
        return driver

    def running(self) -> list[Driver]:
        """Return all drivers that run now."""
        return [driver for driver in self.drivers.values() if driver.poll() is None]

    def stop_all(self) -> None:
        """End all that run."""
        for driver in self.running():
            driver.stop()


def patch_launches(patch: pytest.MonkeyPatch, fleet: Fleet) -> None:
    """Let launches start drivers of this process, and stops end them."""

    def command(
        loaded: LoadedPipeline, sources: Sequence[str], launch_id: str, _generation: str
    ) -> list[str]:
        return [str(loaded.path), launch_id, *sources]

    def stop(_launcher: local.LocalLauncher, launch: Launch) -> None:
        driver = fleet.drivers.get(launch.launch_id)
        if driver is not None and driver.poll() is None:
            driver.stop()

    def end_by_number(pid: int, _signal: int) -> None:
        assert pid == os.getpid()
        for driver in fleet.running():
            driver.stop()

    def environment(_loaded: LoadedPipeline, _scratch: Path) -> dict[str, str]:
        return {}

    patch.setattr(java, "java_version", _java_version)
    # Whoever holds a lock in this process holds it for good, or for a moment.
    patch.setattr(runs, "GRACE_S", 1.0)
    patch.setattr(submit, "command", command)
    patch.setattr(submit, "environment", environment)
    patch.setattr(runs, "start", fleet.start)
    patch.setattr(local.LocalLauncher, "stop", stop)
    # A driver that waits is a process.
    patch.setattr(chain, "waiting_driver", lambda _: None)
    shim: Any = types.SimpleNamespace(**{**vars(os), "kill": end_by_number})
    patch.setattr(run_control, "os", shim)
