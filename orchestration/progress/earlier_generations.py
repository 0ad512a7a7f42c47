"""Earlier generations, to compare with; a document of theirs that is damaged counts as missing."""

from __future__ import annotations

from typing import TypeVar

from sources.common.state_document import Record
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.generations import generations
from sources.state.generation import Generation
from sources.storage.folder import Folder

R = TypeVar("R", bound=Record)


def earlier_generations(loaded: LoadedPipeline, generation: Generation) -> list[Generation]:
    """Return the generations of a pipeline older than the given one, the newest first; maybe none.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    created_ms = generation.info.created_ms
    return [each for each in reversed(generations(loaded)) if each.info.created_ms < created_ms]


def read_earlier(folder: Folder, name: str, kind: type[R]) -> R | None:
    """Return a state document of an earlier generation, for a comparison.

    Args:
        folder: State folder of the generation.
        name: Name of the document, such as ``plan.json``.
        kind: Type of the document.

    Returns:
        None if it is missing, damaged, or of another version of this package.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    try:
        return folder.read(name, kind)
    except StateError:
        return None
