"""Record of repairs: rows of the target that were read from the captured database once more.

Who compares the target with its input has to know them: such a row has the position of the repair,
which is that of no change.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from sources.common.state_document import Part, Record
from sources.storage.folder import Folder


class Repair(Part):
    """One repair of the target: rows that were read from the captured database once more.

    Attributes:
        id: Random id, which the commit to the target carries.
        begun_ms: When it was begun, in Unix milliseconds.
        version: Log position that its rows get: higher than those of all changes that they are
            compared with, and lower than those of all others.
        log_end: End of the database's log when the target was read, as a position.
        missing, different, extra: Number of rows that it inserts, replaces and removes.
        table_version: Version of the target with the repair; None until it is known to be written.
    """

    id: str
    begun_ms: int
    version: str
    log_end: str
    missing: int
    different: int
    extra: int
    table_version: int | None = None


class Righted(Part):
    """Up to where a repair of the whole table has corrected unreadable changes of a source.

    Attributes:
        batch: Number of the last micro-batch with such changes when the repair was begun.
        unknown: Number of such changes without a known key by then.
    """

    batch: int
    unknown: int


class Repairs(Record):
    """State document of a generation: the repairs of its table.

    Attributes:
        repairs: All of them, the oldest first.
        righted: By name of the source, up to where repairs of the whole table have corrected its
            changes that could not be read.
    """

    NAME: ClassVar = "repairs.json"

    repairs: list[Repair] = Field(default_factory=list)
    righted: dict[str, Righted] = Field(default_factory=dict)


def read_repairs(generation: Folder) -> Repairs:
    """Return the repairs of a generation's table; empty without any.

    Args:
        generation: State folder of the generation.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(Repairs.NAME, Repairs) or Repairs()
