"""Interface of launchers: start a driver, ask for its state, end it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from spark_jobs.launch.record import Launch
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
        reason: Why it ended, or why its state is unknown; empty if there is nothing to say. After
            ``ended`` it continues the sentence "The run ended …".
    """

    state: State
    is_good: bool | None = None
    reason: str = ""


class Launcher(Protocol):
    """Launcher of one place (this machine, a cluster, a service): asks about drivers, ends them.

    Works by the record of a launch, so also in processes that did not start the driver.
    """

    def status(self, launch: Launch) -> DriverStatus:
        """Return the state of a launch's driver at this moment.

        On a cluster, a ``spark-submit`` that still hands the driver over is not looked at. A
        cluster that does not answer is no error: the state is ``unknown``.
        """

    def stop(self, launch: Launch) -> None:
        """End all processes of a launch; no error if they have ended already.

        Raises:
            RunError: The cluster refused to end the driver, or another machine launched it.
            UnavailableError: The cluster does not answer.
            InputError: The cluster's command line tool is not installed.
        """

    def logs(self, launch: Launch, lines: int) -> str:
        """Return the last lines that the driver printed, for messages and `hybrid logs`.

        Returns:
            At most so many lines; empty if they are not available, also if the cluster does not
            answer.
        """


def start(order: Order) -> subprocess.Popen[bytes]:
    """Start ``spark-submit`` in its own process group, which outlives this process.

    With a local driver this process is the run itself; on a cluster it hands the driver over and
    ends. The log file of the run before is kept aside.

    Returns:
        The process, without waiting for it.

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
