"""Requested state of the live run, and the supervision's own records, in the state folder."""

from __future__ import annotations

from pydantic import Field

from orchestration.display import moment
from sources.common.positions import Part, Record, now_ms
from sources.errors import ErrorFields, ErrorReport, StateError
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.launch.launch_record import last_launch_id

_REQUESTED = "run/requested.json"
_ASIDE = "run/requested-before-switch.json"
_WATCH = "run/watch.json"
_REFUSED = "run/restart-refused.json"


class RequestedState(Record):
    """State of the live run as people last requested it, kept for each generation.

    The supervision acts on it: it restarts a run that is requested and does not run.

    Attributes:
        source: The source that the live run reads.
        is_requested: Whether the live run is to run.
        at_ms: When this was requested, in ms since 1970.
        is_paused: Whether people paused it, so that it is shown as paused until they resume it.
        why: The reason that people gave, or that the run was drained; empty if none.
        by: Who asked for it; empty if unknown, as in documents that were written without it.
    """

    VERSION = 3

    source: str
    is_requested: bool
    at_ms: int
    is_paused: bool = False
    why: str = ""
    by: str = ""


class Restart(Part):
    """A restart that the supervision asked for.

    Attributes:
        at_ms: When it asked, in ms since 1970.
        replaces: Id of the launch that had failed; None if nothing was launched yet.
        why: The reason of the verdict that led to it.
    """

    at_ms: int
    replaces: str | None
    why: str


class RefusedRestart(Record):
    """Restart by the supervision that was refused before Spark was launched.

    Kept so that the reason is shown, until a later request or launch makes it irrelevant.

    Attributes:
        requested_ms: Time of the request that it belongs to, in ms since 1970.
        launch_id: Id of the last launch at that time; None if nothing was launched yet.
        report: The error that refused it.
    """

    requested_ms: int
    launch_id: str | None
    report: ErrorReport


class Watch(Record):
    """Memory of the supervision between two looks (evaluations) at the live run.

    Attributes:
        requested_ms: Time of the request that this belongs to; a later request starts with an empty
            memory. Times are in ms since 1970.
        launch_id, batch_id: Last launch and last committed micro-batch that were seen; None before
            the first one.
        behind_since_ms: Since when input waits while nothing is committed; None if that is not so.
        lag_unknown_since_ms: Since when it is unknown how much input waits; None if it is known.
        down_since_ms: Since when this launch is seen dead or stuck; None if it is not.
        restarts: Restarts since the request that still count, oldest first.
        gave_up: Whether the limit of restarts was reached: nothing is done until people act.
        alerted: The health that the webhook last received; None if none was posted.
        ahead_ms: How far the driver's clock is ahead of the supervision's; negative if behind.
        doubted_ms: Time in a heartbeat that was too old to be true; None if none is doubted.
        doubted_at_ms: When a look doubted it first.
    """

    VERSION = 3

    requested_ms: int
    launch_id: str | None = None
    batch_id: int | None = None
    behind_since_ms: int | None = None
    lag_unknown_since_ms: int | None = None
    down_since_ms: int | None = None
    restarts: list[Restart] = Field(default_factory=list)
    gave_up: bool = False
    alerted: str | None = None
    ahead_ms: int = 0
    doubted_ms: int | None = None
    doubted_at_ms: int | None = None


def read_requested(generation: Folder) -> RequestedState | None:
    """Return the requested state of the live run; None if it was never started.

    Raises:
        StateError: The file can't be read, or another version of this package wrote it.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_REQUESTED, RequestedState)


def request(
    generation: Folder, source: str, *, is_requested: bool, by: str = "", why: str = ""
) -> None:
    """Record that people want the live run to run, or to stop; this ends a pause.

    Only the record is written: neither is a run launched nor ended here.

    Args:
        generation: The state folder of the generation.
        source: Name of the source that the live run reads.
        is_requested: Whether it is to run.
        by: Who asked for it; empty if unknown.
        why: The reason to show; empty for none.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    requested = RequestedState(
        source=source, is_requested=is_requested, at_ms=now_ms(), by=by, why=why
    )
    write_requested(generation, requested)


def write_requested(generation: Folder, requested: RequestedState) -> None:
    """Replace the requested state of the live run: for a pause, or to restore an earlier one.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_REQUESTED, requested)


def in_words(requested: RequestedState | None) -> str:
    """Return a requested state as one word, for the log of actions.

    Returns:
        ``live``, ``paused`` or ``stopped``; ``never started`` for None.
    """
    if requested is None:
        return "never started"
    if requested.is_requested:
        return "live"
    return "paused" if requested.is_paused else "stopped"


def ended_in_words(requested: RequestedState) -> str:
    """Return since when people have paused or stopped a live run, by whom and why: a sentence.

    Must not be called with a state that is requested.
    """
    by = f" by {requested.by}" if requested.by else ""
    why = f" ({requested.why})" if requested.why else ""
    return (
        f"The live run has been {in_words(requested)} since {moment(requested.at_ms)} UTC{by}{why}."
    )


def set_request_aside(generation: Folder, requested: RequestedState) -> None:
    """Save a copy of the requested state while a promotion stops the run; a saved one is kept.

    :func:`restore_request` ends that.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.put_if_absent(_ASIDE, requested)


def restore_request(generation: Folder, *, restore: bool) -> None:
    """Restore the requested state saved by :func:`set_request_aside`, or drop it.

    Does nothing if none is saved.

    Args:
        generation: The state folder of the generation.
        restore: Whether it is to apply again, as after an aborted promotion; False drops it.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    found = generation.read(_ASIDE, RequestedState)
    if found is None:
        return
    if restore:
        write_requested(generation, found)
    generation.delete(_ASIDE)


def require_requested(generation: Folder) -> RequestedState:
    """Return the requested state of the live run; refuse if people do not want it to run.

    Called before a restart, and during a start with each heartbeat.

    Raises:
        StateError: The live run was stopped or paused, or was never started.
        UnavailableError: The state's store does not answer.
    """
    found = read_requested(generation)
    if found is None or not found.is_requested:
        if found is None:
            what = "was never requested"
        else:
            what = "was paused" if found.is_paused else "was stopped"
        message = f"The live run {what}, so it is not started."
        hint = "If it is to run, start it with `hybrid resume P`."
        fields: ErrorFields = {} if found is None else {"source": found.source}
        raise StateError(message, hint, **fields)
    return found


def read_watch(generation: Folder, requested_ms: int) -> Watch:
    """Return the supervision's memory since a request; empty if there is none.

    Args:
        generation: The state folder of the generation.
        requested_ms: Time of the request, in ms since 1970.

    Returns:
        An empty memory if nothing was written since the request; of an earlier request only the
        health that the webhook last received is kept, so that no alert is posted twice, and what
        is known of the driver's clock.

    Raises:
        StateError: The file can't be read, or another version of this package wrote it.
    """
    found = generation.read(_WATCH, Watch)
    if found is None or found.requested_ms == requested_ms:
        return found or Watch(requested_ms=requested_ms)
    return Watch(requested_ms=requested_ms, alerted=found.alerted, ahead_ms=found.ahead_ms)


def write_watch(generation: Folder, watch: Watch) -> None:
    """Write the supervision's memory, if it differs from the kept one.

    Raises:
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    if generation.read(_WATCH, Watch) != watch:
        generation.replace(_WATCH, watch)


def read_refused(generation: Generation, requested_ms: int) -> ErrorReport | None:
    """Return the error that refused the last restart, as long as it tells why nothing runs.

    Args:
        generation: The generation.
        requested_ms: Time of the present request, in ms since 1970.

    Returns:
        None if no restart was refused, or if a later request or launch makes it irrelevant.

    Raises:
        StateError: The file can't be read, or another version of this package wrote it.
        UnavailableError: The state's store does not answer.
    """
    found = generation.read(_REFUSED, RefusedRestart)
    now = (requested_ms, last_launch_id(generation))
    return found.report if found and (found.requested_ms, found.launch_id) == now else None


def write_refused(generation: Folder, refused: RefusedRestart) -> None:
    """Record the error that refused a restart by the supervision; called by that restart alone.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_REFUSED, refused)
