"""What all launchers have in common: how a run is started, asked about, ended and read."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from sources.common.positions import Part, Record
from spark_jobs.run_state import run_log

State = Literal["waiting", "running", "ended", "unknown"]


class Place(Part):
    """Where the driver of a launch runs: all that is needed to ask about it later.

    Attributes:
        kind: ``local`` is a process of the machine that launched it, wherever its executors are.
        server: Kubernetes: address of the API server; None: as the context says.
        context: Kubernetes: of the client's configuration; None: its current one.
        namespace: Kubernetes: of the driver's pod.
    """

    kind: Literal["local", "yarn", "kubernetes"] = "local"
    server: str | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether the driver is a cluster's, and no process of the machine that launched it."""
        return self.kind != "local"


class Launch(Record):
    """The last launch of a generation.

    Attributes:
        launch_id: Which one; its heartbeats carry it.
        source: Which source it reads by now.
        then: Sources that it goes on with by itself, in order.
        log: Name of ``spark-submit``'s output in the state folder.
        group: Process group of ``spark-submit`` on the machine that launched it; None until it
            was started.
        at_ms: When it was launched, or went on with this source.
        host: Name of that machine.
        place: Where its driver runs.
    """

    VERSION = 3

    launch_id: str
    source: str
    then: list[str] = Field(default_factory=list)
    log: str
    group: int | None
    at_ms: int
    host: str = Field(default_factory=socket.gethostname)
    place: Place = Place()

    @property
    def application(self) -> str:
        """What a cluster knows it by."""
        return application_name(self.launch_id)

    @property
    def is_from_here(self) -> bool:
        """Whether this machine launched it, so that process ids of it mean something."""
        return self.host == socket.gethostname()


def application_name(launch_id: str) -> str:
    """What a cluster knows a launch by, fixed before it is started: YARN's tag, the pod's name."""
    return f"hybrid-{launch_id}"


class Order(NamedTuple):
    """A ``spark-submit`` that is to be started.

    Attributes:
        command: What to start.
        environment: All of its variables.
        folder: Where it starts.
        log: Gets what it prints; overwritten.
        lock: The launch lock; freed once all are gone that the command starts.
    """

    command: list[str]
    environment: dict[str, str]
    folder: Path
    log: Path
    lock: int


class Status(NamedTuple):
    """How a driver does, as far as its launcher can tell.

    Attributes:
        state: ``waiting`` for a place to run; ``unknown`` if nobody answers, which says nothing
            about the driver.
        is_good: Once ended: whether it ended well; None if that can't be told.
        reason: Why it ended, or why nothing is known; in words, and empty if there is nothing to
            tell.
    """

    state: State
    is_good: bool | None = None
    reason: str = ""


class Launcher(Protocol):
    """Starts drivers at one place, and can be asked about them by whoever comes later."""

    def launch(self, order: Order) -> subprocess.Popen[bytes]:
        """Start ``spark-submit``; it is the run itself, or hands it to the cluster and ends."""

    def status(self, launch: Launch) -> Status:
        """How the driver does; a ``spark-submit`` that has yet to hand it over is not looked at."""

    def stop(self, launch: Launch) -> None:
        """Make sure that nothing of it is left; one that has ended is no error.

        Raises:
            RunError: That can't be done now, or not from here.
        """

    def logs(self, launch: Launch, lines: int) -> str:
        """The last lines that the driver printed; empty if they can't be had."""


def start(order: Order) -> subprocess.Popen[bytes]:
    """Start ``spark-submit`` as a process group of its own."""
    run_log.forget(order.log)
    # Appending: the driver shortens it while it lives.
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
