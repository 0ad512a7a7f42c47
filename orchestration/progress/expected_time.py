"""Time that a plan's bounded sources will take, as an extension estimates it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.extensions import contributions
from sources.planning.plan import Plan
from sources.state.generation import Generation


class Estimate(BaseModel):
    """Estimate of the time that a plan's bounded sources take.

    Attributes:
        seconds: Time to read all that is planned, with Spark's start; None if the pipeline has no
            bounded source.
        executor_hours: That time multiplied by the number of executors; None if either is unknown.
        is_guess: Whether a source's speed is not that of an earlier run of this pipeline.
        basis: What the estimate is based on, or why there is none, as a phrase.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float | None
    executor_hours: float | None
    is_guess: bool
    basis: str


def expected_time(
    loaded: LoadedPipeline, generation: Generation, plan: Plan, batches: Mapping[str, int]
) -> Estimate:
    """Return how long a plan's bounded sources will take, by the first extension that estimates it.

    Args:
        loaded: The pipeline.
        generation: The plan's generation.
        plan: The plan.
        batches: Number of micro-batches of each bounded file source, by name.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
        InputError: An extension can't be loaded.
    """
    for estimate in contributions("estimate"):
        found: Estimate = estimate(loaded, generation, plan, batches)
        return found
    basis = "no installed extension estimates it"
    return Estimate(seconds=None, executor_hours=None, is_guess=False, basis=basis)


def computes_rows(pipeline: Pipeline, plan: Plan) -> bool:
    """Return whether the target's rows are computed, such as counts by window, not input rows.

    That is so if the target's key has a column that the planned columns lack.
    """
    return not set(pipeline.sink.key) <= set(plan.columns_by_name)
