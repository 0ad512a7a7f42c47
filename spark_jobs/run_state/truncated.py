"""Position of the last TRUNCATE of a captured table that was merged into the target."""

from __future__ import annotations

from typing import ClassVar

from sources.common.positions import Record
from sources.storage.folder import Folder


class Truncated(Record):
    """State document of a generation: the last TRUNCATE that was merged.

    Attributes:
        position: Its value of the column ``sink.sequence``; only later changes count.
    """

    NAME: ClassVar = "truncated.json"

    position: str


def read_truncated(generation: Folder) -> Truncated | None:
    """Return the last TRUNCATE of a generation; None if there was none.

    Args:
        generation: State folder of the generation.

    Raises:
        StateError: The state can't be read.
    """
    return generation.read(Truncated.NAME, Truncated)
