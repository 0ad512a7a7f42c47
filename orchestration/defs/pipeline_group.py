"""Files that declare several pipelines, as Dagster loads them; extensions know such files."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path

import dagster as dg

from orchestration.defs.assets.unloadable_pipeline import UnreadableFile
from sources.config.loader import LoadedPipeline
from sources.extensions import contributions


class PipelineGroup(ABC):
    """A file that declares several pipelines, each of which has a file of its own.

    Attributes:
        path: The file, absolute.
        name: Name of the whole, as the file declares it.
    """

    path: Path
    name: str

    @abstractmethod
    def files(self) -> Collection[Path]:
        """Return the files of its pipelines, which count as part of this one."""

    @abstractmethod
    def load(self) -> tuple[list[LoadedPipeline], list[UnreadableFile]]:
        """Return its pipelines, and the files of those that can't be loaded, with the errors."""

    @abstractmethod
    def definitions(self, pipelines: Sequence[LoadedPipeline]) -> dg.Definitions:
        """Return the Dagster definitions of the whole, those of its pipelines among them.

        Args:
            pipelines: Those that :meth:`load` returned.
        """


def group_of(path: Path) -> PipelineGroup | None:
    """Return what a file declares if it declares several pipelines; None if it does not.

    Args:
        path: The file.

    Raises:
        InputError: It does, and a field of it is not valid.
    """
    groups = (find(path) for find in contributions("groups"))
    return next((group for group in groups if group is not None), None)
