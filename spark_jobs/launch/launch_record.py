"""Record of the last launch, written before it starts; a suspended launch replaces no later one.

Whoever comes back, be it another click, a restarted Dagster or a command line, finds the run by
this record and resumes watching it instead of starting a second one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.common.times import now_ms
from sources.config.managed_service import managed_services
from sources.errors import StateError
from sources.state.generation import Generation
from sources.state.local_copy import local_path

LAUNCH = "run/launch.json"
"""Document of a generation's last launch, relative to its folder."""


class Place(Part):
    """Place where a launch's driver runs, with all that is needed to ask about it later.

    Attributes:
        kind: ``local``: a process of the machine that launched it, wherever its executors are;
            ``shared``: a thread of such a process, which runs other pipelines as well; any other: a
            kind of clusters, or the scheme of a managed service. What other kinds have is None.
        server: Kubernetes: address of the API server, None for that of the context. A managed
            service: its address or region.
        context: Kubernetes: context of the client's configuration; None for the current one.
        namespace: Kubernetes: namespace of the driver's pod.
        folder: Shared: the driver's folder on the machine that launched it.
        application: A managed service: id of the application that its drivers are part of.
    """

    kind: str = "local"
    server: str | None = None
    context: str | None = None
    namespace: str | None = None
    folder: str | None = None
    application: str | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs on a cluster or a managed service."""
        return self.kind not in ("local", "shared")

    @property
    def is_managed(self) -> bool:
        """Whether the driver runs on a managed service.

        Raises:
            InputError: An extension can't be loaded.
        """
        return self.kind in managed_services()


class Launch(Record):
    """Record of the last launch of a generation (one computation of the whole table).

    Attributes:
        launch_id: Identifier of the launch; its heartbeats carry it.
        source: The source that its driver reads at present.
        then: Sources that the same driver reads afterwards, in order.
        log: Path of ``spark-submit``'s output, relative to the generation's folder.
        group: Process group of ``spark-submit`` on the machine that launched it; None until it was
            started, and in a shared driver.
        at_ms: When it was launched, or its driver switched to this source, in Unix milliseconds.
        host: Name of the machine that launched it.
        place: Where its driver runs.
    """

    VERSION = 3

    launch_id: str
    source: str
    then: list[str] = Field(default_factory=list)
    log: str
    # The groups 0 and 1 stand for one's own, and for all processes.
    group: int | None = Field(gt=1)
    at_ms: int
    host: str = Field(default_factory=socket.gethostname)
    place: Place = Place()

    @property
    def application(self) -> str:
        """Name of the driver on a cluster."""
        return application_name(self.launch_id)

    @property
    def is_from_here(self) -> bool:
        """Whether this machine launched it, by host name: only then are its process ids valid."""
        return self.host == socket.gethostname()


def application_name(launch_id: str) -> str:
    """Return the name that a launch has on a cluster: YARN's tag, or the name of the pod.

    Made from its id before the launch, so that the driver is found even if the launcher is killed.
    """
    return f"hybrid-{launch_id}"


def last_launch(generation: Generation) -> Launch | None:
    """Read the record of a generation's last launch, whether or not its driver still runs.

    None if nothing was ever launched.

    Raises:
        StateError: The record's file is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(LAUNCH, Launch)


def last_launch_id(generation: Generation) -> str | None:
    """Read the id of a generation's last launch; None if nothing was ever launched.

    Raises:
        StateError: The record's file is damaged, or of an unknown version.
        UnavailableError: The state's store does not answer.
    """
    launch = last_launch(generation)
    return None if launch is None else launch.launch_id


def record_launch(generation: Generation, known: Launch | None, launch: Launch) -> None:
    """Record a launch as the generation's last one, unless another one was recorded meanwhile.

    Only for the holder of the launch lock. Where that is a lease, it may expire while this process
    is suspended, and a request of a process that has given up may arrive late: neither replaces the
    record of the launch that holds the lock by now.

    Args:
        generation: State folder of the generation.
        known: The last launch, read while the lock was held; None if there was none.
        launch: The new one.

    Raises:
        StateError: Another launch was recorded since ``known`` was read (transient); or the state
            can't be written.
        UnavailableError: The state's store does not answer.
    """
    if generation.replace_known(LAUNCH, known, launch):
        return
    message = (
        f"Another process has recorded a launch in {generation.location(LAUNCH)} at the same time, "
        f"so no driver of `{launch.source}` was started here."
    )
    hint = "Try again: the run that is there by then is watched, or one is started."
    raise StateError(message, hint, transient=True, source=launch.source)


def require_last_launch(generation: Generation, launch_id: str) -> None:
    """Refuse to start a driver whose launch is not the generation's last one by now.

    Where the launch lock is a lease, it expires while a driver that was launched is suspended
    before it takes its own. Another one may then be launched, and end, before the first wakes up.

    Only for the holder of the query lock: nothing is launched while it is held. Passes if no launch
    is recorded.

    Args:
        generation: State folder of the generation.
        launch_id: The launch of the driver.

    Raises:
        StateError: There is a later launch; or the record is damaged.
        UnavailableError: The state's store does not answer.
    """
    last = last_launch(generation)
    if last is None or last.launch_id == launch_id:
        return
    message = (
        f"Another driver was launched for generation {generation.name} before this one had begun, "
        "so this one ends without reading anything."
    )
    hint = "Nothing is lost; `hybrid status P` shows what the other driver reads, or has read."
    raise StateError(message, hint, source=last.source)


def record_group(generation: Generation, launch_id: str, group: int) -> None:
    """Record the process group of a launch that was started; nothing if there is a later launch.

    Args:
        generation: State folder of the generation.
        launch_id: The launch.
        group: The process group.

    Raises:
        StateError: The record is damaged, or the state can't be written.
        UnavailableError: The state's store does not answer.
    """
    _change(generation, launch_id, lambda last: last.model_copy(update={"group": group}))


def record_switch(generation: Generation, launch_id: str, source: str) -> None:
    """Record that a launch's driver has finished its source and now reads another one.

    Repeated for the same source, it changes nothing.

    Args:
        generation: State folder of the generation.
        launch_id: The launch whose driver switches.
        source: The source that it reads from now on.

    Raises:
        StateError: Another driver was launched in the meantime, or the launch was not to read this
            source; or the record is damaged, or can't be written.
        UnavailableError: The state's store does not answer.
    """

    def switched(last: Launch) -> Launch:
        if last.source == source:
            # By this driver, whose request was not answered.
            return last
        if source not in last.then:
            message = (
                f"This driver was launched to read `{last.source}`, and `{source}` is no source "
                "that it reads afterwards, so it ends without reading that source."
            )
            hint = f"Nothing is lost; `hybrid run P` launches a driver that reads `{source}`."
            raise StateError(message, hint, source=source)
        then = last.then[last.then.index(source) + 1 :]
        return last.model_copy(update={"source": source, "then": then, "at_ms": now_ms()})

    if not _change(generation, launch_id, switched):
        message = (
            f"Another driver was launched before this one could switch to `{source}`, so this one "
            "ends without reading that source."
        )
        hint = "Nothing is lost; `hybrid status P` shows what the other driver reads."
        raise StateError(message, hint, source=source)


def _change(generation: Generation, launch_id: str, change: Callable[[Launch], Launch]) -> bool:
    """Change the record of a launch; return False if it is not the last one."""
    while True:
        last = last_launch(generation)
        if last is None or last.launch_id != launch_id:
            return False
        # Launcher and driver may write at the same time, each a part of it.
        if generation.replace_known(LAUNCH, last, change(last)):
            return True


def log_name(source: str) -> str:
    """Return the path of a run's log file, relative to the generation's folder.

    Args:
        source: The first source that the launched driver reads.
    """
    return f"run/{source}.log"


def log_of(generation: Generation, launch: Launch) -> Path:
    """Return the local path of a launch's log; the file need not exist.

    If only the machine that launched it has the log, as for a state in a store, no file of this
    machine has the path that is returned: its own log of the source is of an earlier launch.

    Args:
        generation: State folder of the generation.
        launch: The launch.
    """
    is_here = generation.is_local or launch.is_from_here
    return local_path(generation, launch.log if is_here else f"{launch.log}.{launch.host}")


def log_path(generation: Generation, source: str) -> Path:
    """Return the local path of the log of a source's last run; the file need not exist.

    If the driver switched to this source, it is the log of the source that it began with.

    Raises:
        StateError: The launch record is damaged.
        UnavailableError: The state's store does not answer.
    """
    last = last_launch(generation)
    is_its = last is not None and last.source == source
    return local_path(generation, last.log if last is not None and is_its else log_name(source))
