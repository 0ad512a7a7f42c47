"""Commits of a followed table that need not be read: the pipeline's table has their rows by now.

Such a commit has replaced a range that was recomputed here, too; or it is a promotion, which put
the rows of the candidate's table that was followed before into the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from sources.common.state_document import Record
from sources.files.tables.table_position import TablePosition
from sources.planning.files.file_plan import FoundFiles
from sources.state.generation import Generation


class PassedRange(Record):
    """Record of the last commit of a followed table that need not be read.

    Attributes:
        position: Version of that commit: reading continues after it.
    """

    VERSION = 1

    position: TablePosition


def pass_range(generation: Generation, source: str, position: TablePosition) -> None:
    """Record that the pipeline's table has what a commit of the followed table has replaced.

    Reading then continues after that version; an earlier record is replaced.

    Args:
        generation: State of the generation.
        source: Name of the source.
        position: Version of the commit; of another table than what was found so far if that one's
            rows are in it by now. Reading goes on after it.

    Raises:
        StateError: The state can't be written.
        UnavailableError: The state's store does not answer.
    """
    generation.replace(_name(source), PassedRange(position=position))


def position_after(generation: Generation, parts: Sequence[FoundFiles]) -> TablePosition | None:
    """Return the version of a followed table up to which all is found, passed ranges included.

    Args:
        generation: State of the generation.
        parts: What was found so far.

    Returns:
        None if the source follows no table.

    Raises:
        StateError: The record is damaged.
        UnavailableError: The state's store does not answer.
    """
    found = parts[-1].position
    if found is None:
        return None
    passed = generation.read(_name(parts[-1].source), PassedRange)
    if passed is None:
        return found
    # Of another table: its versions are not those of the one that was followed before.
    is_moved = passed.position.place != found.place
    return passed.position if is_moved or passed.position.version >= found.version else found


def _name(source: str) -> str:
    return f"discoveries/{source}-passed.json"
