"""What the supervision keeps in the state folder: the requested state, and what it did."""

from __future__ import annotations

from pydantic import Field

from sources.common.positions import Part, Record, now_ms
from sources.common.state import Folder, Generation
from sources.errors import ErrorReport, StateError
from spark_jobs.launch.record import last_launch_id

_REQUESTED = "run/requested.json"
_WATCH = "run/watch.json"
_REFUSED = "run/restart-refused.json"


class RequestedState(Record):
    """The state of the live run that people last requested.

    Attributes:
        source: The source that it reads.
        is_requested: Whether it is to run.
        at_ms: When this was requested.
        is_paused: Whether it was paused, so that it waits for being resumed.
        why: The reason that people gave; empty if none.
    """

    VERSION = 3

    source: str
    is_requested: bool
    at_ms: int
    is_paused: bool = False
    why: str = ""


class Restart(Part):
    """A restart that the supervision asked for.

    Attributes:
        at_ms: When it did.
        replaces: The launch that had failed; None if nothing was launched yet.
        why: The reason of the verdict that led to it.
    """

    at_ms: int
    replaces: str | None
    why: str


class RefusedRestart(Record):
    """A restart that launched nothing, as the launch itself was refused.

    Attributes:
        requested_ms: The request that it belongs to; a later one makes it irrelevant.
        launch_id: The last launch at that time; a later one makes it irrelevant.
        report: The error that refused it.
    """

    requested_ms: int
    launch_id: str | None
    report: ErrorReport


class Watch(Record):
    """What the supervision remembers from one look at the live run to the next.

    Attributes:
        requested_ms: The request that this belongs to; a later one starts with an empty memory.
        launch_id, batch_id: Last launch and committed micro-batch that were seen.
        behind_since_ms: Since when input was seen to wait while nothing was committed.
        down_since_ms: Since when this launch is seen dead or stuck; None if it is not.
        restarts: Restarts since the request that still count, oldest first.
        gave_up: Whether the limit was reached: nothing is done until people act.
        alerted: The health that the webhook last received.
        slot_idle_since_ms: Since when no connector was seen to read the slot; None if one does.
    """

    VERSION = 2

    requested_ms: int
    launch_id: str | None = None
    batch_id: int | None = None
    behind_since_ms: int | None = None
    down_since_ms: int | None = None
    restarts: list[Restart] = Field(default_factory=list)
    gave_up: bool = False
    alerted: str | None = None
    slot_idle_since_ms: int | None = None


def read_requested(generation: Folder) -> RequestedState | None:
    """Return the state that people last requested; None if they never requested any."""
    return generation.read(_REQUESTED, RequestedState)


def request(generation: Folder, source: str, *, is_requested: bool) -> None:
    """Write down that the live run is requested to run, or not to, from now on."""
    write_requested(
        generation, RequestedState(source=source, is_requested=is_requested, at_ms=now_ms())
    )


def write_requested(generation: Folder, requested: RequestedState) -> None:
    """Write a requested state down as it is: a pause, or an earlier one that applies again."""
    generation.replace(_REQUESTED, requested)


def require_requested(generation: Folder) -> RequestedState:
    """Return the requested state; refuse to start a run that was stopped or paused.

    Raises:
        StateError: It was.
    """
    found = read_requested(generation)
    if found is None or not found.is_requested:
        message = "The live run was stopped or paused."
        raise StateError(message, "Start it again with `hybrid resume`, if it is to run.")
    return found


def read_watch(generation: Folder, requested_ms: int) -> Watch:
    """Return what is remembered of a request; of an earlier one only what the webhook received."""
    found = generation.read(_WATCH, Watch)
    if found is None or found.requested_ms == requested_ms:
        return found or Watch(requested_ms=requested_ms)
    return Watch(requested_ms=requested_ms, alerted=found.alerted)


def write_watch(generation: Folder, watch: Watch) -> None:
    """Remember; nothing is written if nothing changed."""
    if generation.read(_WATCH, Watch) != watch:
        generation.replace(_WATCH, watch)


def read_refused(generation: Generation, requested_ms: int) -> ErrorReport | None:
    """Return why the last restart launched nothing; None if people or a launch came after it."""
    found = generation.read(_REFUSED, RefusedRestart)
    now = (requested_ms, last_launch_id(generation))
    return found.report if found and (found.requested_ms, found.launch_id) == now else None


def write_refused(generation: Folder, refused: RefusedRestart) -> None:
    """Write down why a restart launched nothing. Only the restart itself does so."""
    generation.replace(_REFUSED, refused)
