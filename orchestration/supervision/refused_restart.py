"""Record of a restart that was refused before Spark was launched, in the state folder."""

from __future__ import annotations

from sources.common.state_document import Record
from sources.errors import ErrorReport
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.launch.launch_record import last_launch_id

_REFUSED = "run/restart-refused.json"


class RefusedRestart(Record):
    """Restart by the supervision that was refused before Spark was launched.

    Kept so that the reason is shown, until a later request or launch makes it irrelevant.

    Attributes:
        requested_ms: Time of the request that it belongs to, in ms since 1970.
        launch_id: Id of the last launch at that time; None if nothing was launched yet.
        report: The error that refused it.
        restart_ms: When the supervision asked for this restart, in ms since 1970; None if it did
            not.
    """

    requested_ms: int
    launch_id: str | None
    report: ErrorReport
    restart_ms: int | None = None


def read_refused(generation: Generation, requested_ms: int) -> RefusedRestart | None:
    """Return the last restart if it was refused, as long as that is why nothing runs.

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
    return found if found and (found.requested_ms, found.launch_id) == now else None


def write_refused(generation: Folder, refused: RefusedRestart) -> None:
    """Record the error that refused a restart by the supervision; called by that restart alone.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_REFUSED, refused)
