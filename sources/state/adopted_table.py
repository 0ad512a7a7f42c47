"""Adopted table: an existing one with which a generation has begun, in place of history."""

from __future__ import annotations

from typing import ClassVar

from sources.common.positions import Offsets
from sources.common.state_document import Record
from sources.storage.folder import Folder


class Adopted(Record):
    """State document of a generation that began with an existing table in place of history.

    Written before any other decision of the adoption, so that an interrupted one resumes by it.

    Attributes:
        table_version: Version of the table whose rows were adopted.
        newest: Newest version of the table then; the adoption is the one after it.
        offsets: First offset of each partition whose record is not in these rows.
        by_commits: Whether the table's commits said so; else people declared it.
        before: Application ids of writers that must not write any more.
    """

    NAME: ClassVar = "adopted.json"

    table_version: int
    newest: int
    offsets: Offsets
    by_commits: bool
    before: list[str]


def read_adopted(generation: Folder) -> Adopted | None:
    """Read what a generation has adopted; None if it has computed all of its rows.

    Args:
        generation: State folder of the generation.

    Raises:
        StateError: The document is damaged, or of another version.
        UnavailableError: The state's store does not answer.
    """
    return generation.read(Adopted.NAME, Adopted)
