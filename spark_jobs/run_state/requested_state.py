"""Requested state of the live run: live, paused, stopped; a promotion sets it aside."""

from __future__ import annotations

from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.errors import ErrorFields, StateError
from sources.storage.folder import Folder

_REQUESTED = "run/requested.json"
_ASIDE = "run/requested-before-switch.json"


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
        message = f"The live run was {in_words(found)}, so it is not started."
        hint = f"If it is to run, start it with `hybrid resume P --generation {generation.name}`."
        fields: ErrorFields = {} if found is None else {"source": found.source}
        raise StateError(message, hint, **fields)
    return found
