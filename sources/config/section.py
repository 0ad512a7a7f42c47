"""Section of a pipeline's file: the part of it that an extension declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import BaseModel

from sources.common.fields import Declared

if TYPE_CHECKING:
    from sources.config.pipeline import Pipeline


class Section(Declared):
    """Fields of a pipeline's file that belong to one extension; the core does not know them.

    Each has a default, which stands for a file without it.

    Attributes:
        tags: The model that each value of a ``type`` stands for, where a field is one of several
            models.
        takes_inputs: Whether the section can be declared next to ``inputs``.
    """

    tags: ClassVar[Mapping[str, type[BaseModel]]] = {}
    takes_inputs: ClassVar[bool] = False

    @property
    def schedules(self) -> list[str]:
        """Names of the Dagster schedules that the section declares; none by default."""
        return []

    @property
    def assets(self) -> Mapping[str, str]:
        """What the page of the section's Dagster asset is for, by the asset's name; else none.

        The name is without the pipeline's before it. The table's page links to it by the text.
        """
        return {}

    @property
    def checks_on_request(self) -> list[str]:
        """Names of checks of the table that its chain leaves out, as they read much; else none."""
        return []

    def check(self, pipeline: Pipeline) -> None:
        """Refuse fields of the section that contradict the rest of the file; by default nothing.

        Called while the file is loaded, once section and rest are valid by themselves. A file
        without the section is checked, too, with the defaults.

        Args:
            pipeline: The rest of the file, as the core reads it.

        Raises:
            ValueError: Says which fields, why, and the way out.
        """

    def located(self, locate: Callable[[str], str]) -> Self:
        """Return the section with absolute paths; by default unchanged, as it has none.

        Called while the file is loaded, after :meth:`check`.

        Args:
            locate: Makes a path that is relative to the pipeline's file absolute.
        """
        del locate
        return self

    def require_extras(self) -> None:
        """Refuse a section that needs an extra which is not installed; by default nothing.

        Called before anything is planned (:mod:`sources.config.requirements`).

        Raises:
            InputError: Names the field and the extra.
        """
