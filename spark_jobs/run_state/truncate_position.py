"""Position of the last TRUNCATE of a captured table that was merged into the target."""

from __future__ import annotations

from typing import ClassVar

from sources.common.state_document import Record
from sources.storage.folder import Folder


class Truncated(Record):
    """State document of a generation: the last TRUNCATE of the captured table that was merged.

    Attributes:
        position: Its value of the column ``sink.sequence``; changes up to it are ignored.
    """

    NAME: ClassVar = "truncated.json"

    position: str


def read_truncated(generation: Folder) -> Truncated | None:
    """Read the last TRUNCATE that a generation has merged; None if there was none.

    Args:
        generation: State folder of the generation.

    Raises:
        StateError: The document is damaged.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(Truncated.NAME, Truncated)
