"""Base of launchers: start `spark-submit`, ask for a driver's state, end it, read its output."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from spark_jobs.launch.launch_record import Launch
from spark_jobs.run_state import run_log

State = Literal["waiting", "running", "ended", "unknown"]


class Order(NamedTuple):
    """A ``spark-submit`` command, with its environment and log file.

    Attributes:
        command: The program and its arguments.
        environment: All of its environment variables.
        folder: Its working directory.
        log: The run's log file, for what the command prints; emptied first.
        descriptors: File descriptors of the launch lock; it is free once every process that the
            command starts has ended.
    """

    command: list[str]
    environment: dict[str, str]
    folder: Path
    log: Path
    descriptors: tuple[int, ...]


class DriverStatus(NamedTuple):
    """State of a driver, as far as its launcher knows it.

    Attributes:
        state: ``waiting`` for the cluster's resources, ``running``, ``ended``; or ``unknown`` if
            the cluster does not answer: then the driver may be in any state.
        is_good: Once ended: whether it succeeded; None if that is not known.
        reason: Why it ended, or why its state is unknown; may be empty. After ``ended`` it
            continues the sentence "The run ended …".
    """

    state: State
    is_good: bool | None = None
    reason: str = ""


class Launcher(Protocol):
    """Interface of one place where drivers run (this machine, a cluster, a service).

    It asks about drivers, and ends them, by the record of their launch; so it works also in
    processes that did not start the driver.
    """

    def status(self, launch: Launch) -> DriverStatus:
        """Return the state of a launch's driver at this moment; raises nothing.

        ``unknown`` if a cluster does not answer. A ``spark-submit`` that still hands a driver over
        to its cluster is not considered.

        Args:
            launch: The record of the launch.
        """

    def stop(self, launch: Launch) -> None:
        """End all processes of a launch; no error if they have ended already.

        Args:
            launch: The record of the launch.

        Raises:
            RunError: The cluster refused to end the driver, or another machine launched it.
            UnavailableError: The cluster does not answer.
            InputError: The cluster's command line tool is not installed.
        """

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver printed, as one text, for `hybrid logs`.

        Empty if they are not available, also if the cluster does not answer.

        Args:
            launch: The record of the launch.
            lines: Most lines.
        """


def start(order: Order) -> subprocess.Popen[bytes]:
    """Start ``spark-submit`` as a process that outlives this one; return without waiting for it.

    In a process group of its own. With a local driver it is the run itself; on a cluster it hands
    the driver over and ends. The log file of the run before is kept aside.

    Args:
        order: The command, with its environment and log file.

    Raises:
        OSError: The program can't be started, or the log can't be written.
    """
    run_log.begin(order.log)
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
            pass_fds=order.descriptors,
        )
