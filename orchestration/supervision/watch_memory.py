"""Memory of the supervision between looks: restarts, last alert; a new request empties it."""

from __future__ import annotations

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.storage.folder import Folder

_WATCH = "run/watch.json"


class Restart(Part):
    """A restart that the supervision asked for, as it remembers it.

    Attributes:
        at_ms: When it asked, in ms since 1970.
        replaces: Id of the launch that had failed; None if nothing was launched yet.
        why: The reason of the verdict that led to it.
    """

    at_ms: int
    replaces: str | None
    why: str


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
        doubted_at_ms: When a look doubted it first; None if none is doubted.
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

    def as_of(self, now_ms: int) -> Watch:
        """Return this memory without times after the present, which a clock set back leaves.

        They become the present. Otherwise a restart would wait until the clock is there again.

        Args:
            now_ms: The present, in ms since 1970.
        """
        names = ("behind_since_ms", "lag_unknown_since_ms", "down_since_ms")
        times = {name: min(at, now_ms) for name in names if (at := getattr(self, name)) is not None}
        restarts = [
            each.model_copy(update={"at_ms": min(each.at_ms, now_ms)}) for each in self.restarts
        ]
        return self.model_copy(update={**times, "restarts": restarts})


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
        UnavailableError: The state's store does not answer.
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
