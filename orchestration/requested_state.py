"""What supervision keeps in the state folder: what people want, and what was done about it."""

from __future__ import annotations

from pydantic import Field

from sources.common.positions import Part, Record, now_ms
from sources.common.state import Folder
from sources.errors import StateError

_WANTED = "run/wanted.json"
_WATCH = "run/watch.json"


class Wanted(Record):
    """What people last asked of the live run.

    Attributes:
        source: Which source it reads.
        is_wanted: Whether it shall run.
        at_ms: When they asked.
        is_paused: Whether it does not run only until people resume it.
        why: What they said of it; empty if nothing.
    """

    VERSION = 2

    source: str
    is_wanted: bool
    at_ms: int
    is_paused: bool = False
    why: str = ""


class Restart(Part):
    """A restart that was asked for.

    Attributes:
        at_ms: When.
        replaces: The launch that had failed; None if none was made.
        why: What was seen, in words.
    """

    at_ms: int
    replaces: str | None
    why: str


class Watch(Record):
    """What the supervisor remembers from one look at the live run to the next.

    Attributes:
        wanted_ms: The wish that this belongs to; another one starts anew.
        launch_id, batch_id: Where the run was.
        behind_since_ms: Since when input was seen to wait while nothing was committed.
        down_since_ms: Since when this launch is seen dead or stuck; None if it is not.
        restarts: Those since the wish that may still count, oldest first.
        gave_up: Whether the limit was reached: it is left alone until people act.
        alerted: The health that the webhook was last told.
        slot_idle_since_ms: Since when no connector was seen to read the slot; None if one does.
    """

    wanted_ms: int
    launch_id: str | None = None
    batch_id: int | None = None
    behind_since_ms: int | None = None
    down_since_ms: int | None = None
    restarts: list[Restart] = Field(default_factory=list)
    gave_up: bool = False
    alerted: str | None = None
    slot_idle_since_ms: int | None = None


def read_wanted(generation: Folder) -> Wanted | None:
    """What people last asked of the live run; None if they never did."""
    return generation.read(_WANTED, Wanted)


def want(generation: Folder, source: str, *, is_wanted: bool) -> None:
    """Write down what people ask of the live run."""
    put_wish(generation, Wanted(source=source, is_wanted=is_wanted, at_ms=now_ms()))


def put_wish(generation: Folder, wish: Wanted) -> None:
    """Write down a wish as it is: one of more words, or one that is to hold again."""
    generation.replace(_WANTED, wish)


def require_wanted(generation: Folder) -> None:
    """Refuse to go on with a run that people have stopped or paused.

    Raises:
        StateError: They have.
    """
    found = read_wanted(generation)
    if found is None or not found.is_wanted:
        raise StateError("The live run was stopped.", "Run it again if it is wanted after all.")


def read_watch(generation: Folder, wanted_ms: int) -> Watch:
    """What was remembered for this wish; of an earlier one only what people were told."""
    found = generation.read(_WATCH, Watch)
    if found is None or found.wanted_ms == wanted_ms:
        return found or Watch(wanted_ms=wanted_ms)
    return Watch(wanted_ms=wanted_ms, alerted=found.alerted)


def write_watch(generation: Folder, watch: Watch) -> None:
    """Remember; written only if it is news."""
    if generation.read(_WATCH, Watch) != watch:
        generation.replace(_WATCH, watch)
