"""Barrier: a position in the database's log at which each table's driver makes a commit.

The publisher of cuts writes :class:`Barrier` into the state of each table's generation, first
without a position; then it asks the database for the position, and writes that. The table's driver
answers with :class:`Crossing` before it merges the first change from behind the barrier.

A micro-batch whose driver finds no barrier was planned before the position was taken, so it holds
changes from before it only: each of its transactions was committed, and in the topic, by then. From
the moment that a driver sees a barrier it merges nothing from behind it without an answer, be it
that it gives the barrier up. So a table without an answer has nothing from behind the barrier.
"""

from __future__ import annotations

from enum import Enum, auto

from sources.common.state_document import Record
from sources.storage.folder import Folder

_BARRIER = "cut/barrier.json"
_CROSSING = "cut/crossing.json"


class Barrier(Record):
    """Barrier of one attempt to publish a cut, in the state of a table's generation.

    While it is open, the table's driver merges no change from behind it without a
    :class:`Crossing`.

    Attributes:
        number: Number of the attempt; the numbers of a generation only grow.
        is_open: Whether the attempt is under way.
        until_ms: Time in ms since 1970 after which drivers ignore the barrier.
        position: Position in the database's log, as text that sorts; changes with a lower one are
            in the cut, and no others. None until the database was asked.
    """

    number: int
    is_open: bool
    until_ms: int
    position: str | None = None


class Crossing(Record):
    """Record of a table's driver about a barrier that it has passed or given up.

    Attributes:
        number: Number of the barrier.
        batch: Number of the micro-batch with the first change from behind the barrier.
        table_version: Version of the table before that change; None if the barrier was given up.
        failure: Why the barrier was given up, as a clause; None if it was not.
    """

    number: int
    batch: int
    table_version: int | None = None
    failure: str | None = None


def read_barrier(generation: Folder) -> Barrier | None:
    """Return the newest barrier of a generation, open or not; None if there never was one.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(_BARRIER, Barrier)


def write_barrier(generation: Folder, barrier: Barrier) -> None:
    """Write a generation's barrier, replacing an earlier one; called by the publisher of cuts.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_BARRIER, barrier)


def read_crossing(generation: Folder, number: int) -> Crossing | None:
    """Return the driver's record about the barrier of a number; None if there is none yet.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = generation.read(_CROSSING, Crossing)
    return None if found is None or found.number != number else found


def write_crossing(generation: Folder, crossing: Crossing) -> None:
    """Write the driver's record about a barrier, replacing an earlier one; called by the driver.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_CROSSING, crossing)


class BarrierStep(Enum):
    """Way of merging a micro-batch that may have changes from behind an open barrier.

    Attributes:
        WHOLE: In one commit; the barrier is not crossed, or was before.
        CROSS: In one commit, after the version before it was recorded.
        SPLIT: The changes from before the barrier, then the record of that version, then the rest.
        LATE: In one commit, after the barrier was given up: a change from before it has come after
            the crossing.
        BARRED: In one commit, after the barrier was given up: it was opened before the query began,
            so that another driver may still split by it.
    """

    WHOLE = auto()
    CROSS = auto()
    SPLIT = auto()
    LATE = auto()
    BARRED = auto()


def step(
    batch: int, before: int, behind: int, crossing: Crossing | None, *, is_barred: bool
) -> BarrierStep:
    """Decide how a micro-batch is merged while a barrier is open. A pure function.

    Args:
        batch: Number of the micro-batch.
        before: Number of its changes from before the barrier.
        behind: Number of its changes from behind the barrier.
        crossing: The driver's record about the barrier; None if there is none yet.
        is_barred: Whether the barrier is older than the query, so that it may not be split by it.
    """
    if crossing is not None:
        # The micro-batch of the crossing may be repeated after a failure.
        is_late = before > 0 and crossing.failure is None and crossing.batch != batch
        return BarrierStep.LATE if is_late else BarrierStep.WHOLE
    if not behind:
        return BarrierStep.WHOLE
    if not before:
        return BarrierStep.CROSS
    return BarrierStep.BARRED if is_barred else BarrierStep.SPLIT
