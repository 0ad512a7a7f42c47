"""Declaration of scheduled upkeep of the target: compaction, and deletion of unneeded files."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from hybrid_extensions.schedules.schedule import Schedule
from sources.config.section import Section


class Upkeep(Schedule):
    """Scheduled upkeep of the target, while its stream continues; no row changes by it.

    Attributes:
        action: ``compact`` makes few large files of many small ones; ``vacuum`` deletes files that
            neither readers nor a rollback need.

    """

    action: Literal["compact", "vacuum"] = "compact"


class UpkeepSection(Section):
    """Section of a pipeline's file about upkeep.

    Attributes:
        upkeep: Schedules that compact the table's small files, or delete files that nobody needs.
    """

    takes_inputs: ClassVar[bool] = True
    upkeep: list[Upkeep] = Field(default_factory=list)

    @property
    def schedules(self) -> list[str]:
        """Names of the declared schedules, without the pipeline's name before them."""
        return [each.name for each in self.upkeep]
