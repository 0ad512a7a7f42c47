"""Declaration of generations: how many are kept, and scheduled reruns."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from hybrid_extensions.schedules.schedule import Schedule
from sources.common.fields import Declared
from sources.config.inputs import refused_with_inputs
from sources.config.pipeline import Pipeline
from sources.config.section import Section

COMPARED = "same_rows"
"""Name of the check that compares the candidate's rows with those that readers see."""


class Rerun(Schedule):
    """Scheduled rebuild of the whole table as a new generation, while the old one keeps serving.

    Attributes:
        promote: When readers get the new generation: ``checks`` once its hand-over passes its
            checks, its live run has caught up and is healthy, it has enough rows
            (``rows_at_least``), and its audit, if ``audit`` is declared, has not failed; ``never``
            leaves the promotion to people.
        rows_at_least: Lowest ratio of the new generation's rows to those of the serving one, at
            which it is promoted; ``0.99`` tolerates one percent less.

    """

    promote: Literal["checks", "never"] = "checks"
    rows_at_least: float = Field(default=0.99, ge=0)

    @property
    def text(self) -> str:
        """Description of the rerun for display, and whether it is promoted without a person."""
        if self.promote == "never":
            return (
                f"{super().text} It waits for a person, who promotes or discards it. Until then a "
                "later tick compares it again, and computes none from newer files."
            )
        return (
            f"{super().text} Readers get it by itself once it has caught up, is healthy and has at "
            f"least {self.rows_at_least:.2%} of the rows (promote: checks)."
        )


class Generations(Declared):
    """Generations of the table: how many are kept, and when new ones are built.

    Attributes:
        keep: How many generations that served earlier are kept, so that they can be rolled back to.
        reruns: Schedules that rebuild the table as a new generation.

    """

    keep: int = Field(default=1, ge=0)
    reruns: list[Rerun] = Field(default_factory=list)


class GenerationsSection(Section):
    """What a pipeline's file declares of generations.

    Attributes:
        generations: How many generations are kept, and schedules that rebuild the table.
    """

    takes_inputs: ClassVar[bool] = True
    generations: Generations = Generations()

    @property
    def schedules(self) -> list[str]:
        """Names of the scheduled reruns, without the pipeline's name before them."""
        return [each.name for each in self.generations.reruns]

    @property
    def checks_on_request(self) -> list[str]:
        """The comparison of two generations, which reads both tables."""
        return [COMPARED]

    def check(self, pipeline: Pipeline) -> None:
        """Refuse reruns beside ``inputs``, and those that promote where ``approvers`` are named.

        Raises:
            ValueError: Says which of them, and the way out.
        """
        reruns = self.generations.reruns
        if pipeline.inputs and reruns:
            raise ValueError(refused_with_inputs("generations.reruns"))
        promoting = [each.name for each in reruns if each.promote != "never"]
        if pipeline.approvers and promoting:
            message = (
                f"`generations.reruns` has `{promoting[0]}` with `promote: checks`, which promotes "
                "without a person, but `approvers` names those who may promote. Declare `promote: "
                "never` there, so that the new generation waits for one of them; or remove "
                "`approvers`."
            )
            raise ValueError(message)
