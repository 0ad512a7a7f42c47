"""Jobs that extensions add to each pipeline, as messages and the table's page name them."""

from __future__ import annotations

from dataclasses import dataclass

from sources.config.loader import LoadedPipeline
from sources.extensions import items_added


@dataclass(frozen=True)
class AddedJob:
    """A job that an extension adds to each pipeline, so that messages and pages can name it.

    Attributes:
        command: Command of ``hybrid`` that does the same, which messages name.
        ending: What the job's name has after that of the pipeline, such as ``_backfill``.
        does: What the job does with the table, as a clause after its name.
    """

    command: str
    ending: str
    does: str

    def name(self, loaded: LoadedPipeline) -> str:
        """Return the job's name for a pipeline, such as ``orders_backfill``."""
        return f"{loaded.pipeline.name}{self.ending}"


def added_jobs() -> list[AddedJob]:
    """Return the jobs that the installed extensions add; empty for none.

    Raises:
        InputError: An extension can't be loaded.
    """
    return [*items_added("jobs")]
