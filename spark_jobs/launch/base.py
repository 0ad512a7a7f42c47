"""The interface of launchers: how a driver is started, asked about and ended."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from spark_jobs.launch.record import Launch
from spark_jobs.run_state import run_log

State = Literal["waiting", "running", "ended", "unknown"]


class Order(NamedTuple):
    """A ``spark-submit`` command to be started.

    Attributes:
        command: The command.
        environment: All of its environment variables.
        folder: Its working directory.
        log: File for what it prints; overwritten.
        lock: File descriptor of the launch lock; the lock is released once every process that the
            command starts has ended.
    """

    command: list[str]
    environment: dict[str, str]
    folder: Path
    log: Path
    lock: int


class Status(NamedTuple):
    """State of a driver, as far as its launcher knows it.

    Attributes:
        state: ``waiting`` for resources; ``unknown`` if the cluster does not answer, which says
            nothing about the driver.
        is_good: Once ended: whether it succeeded; None if that is not known.
        reason: Why it ended, or why its state is unknown; empty if there is nothing to say. After
            ``ended`` it continues the sentence "The run ended …".
    """

    state: State
    is_good: bool | None = None
    reason: str = ""


class Launcher(Protocol):
    """Answers for the drivers at one place, also to processes that did not start them."""

    def status(self, launch: Launch) -> Status:
        """Return the driver's state; a ``spark-submit`` still handing it over is not looked at."""

    def stop(self, launch: Launch) -> None:
        """Make sure that no process of the launch is left; no error if it has ended already.

        Raises:
            RunError: It can't be ended now, or not from this machine.
        """

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver printed; empty if they are not available."""


def start(order: Order) -> subprocess.Popen[bytes]:
    """Start ``spark-submit`` as a process group of its own.

    It is the run itself, or hands the driver to the cluster and ends.
    """
    run_log.forget(order.log)
    # Appending: the driver truncates the log while it runs.
    with order.log.open("ab") as output:
        return subprocess.Popen(
            order.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=order.folder,
            env=order.environment,
            start_new_session=True,
            pass_fds=[order.lock],
        )
