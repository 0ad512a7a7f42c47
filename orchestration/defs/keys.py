"""Names that definitions share: asset keys and groups, run tags, jobs, a generation's role."""

from collections.abc import Mapping

import dagster as dg

from orchestration.chain import PlanStep
from sources.config.loader import LoadedPipeline
from sources.serving import FIRST, candidate_name, is_replaced, newest_generation

RESTART_TAG = "hybrid/restart"
"""Tag of a Dagster run that the supervision requested; a run that people start has none."""
DECLARATION_TAG = "hybrid/declaration"
"""Tag with the pipeline's file to use: the generation that serves may have a copy of its own."""
GENERATION_TAG = "hybrid/generation"
"""Tag with the generation that a Dagster run works on, such as ``g2``."""
ACTION_TAG = "hybrid/action"
"""Tag with what a Dagster run of a job with several actions does, such as ``RERUN``."""
PAUSED_TAG = "hybrid/waits_for"
"""Tag of a Dagster run that ended early, with what the chain waits for: ``approval``."""
APPROVAL = "approval"
"""Value of that tag until the plan is approved; lists of runs show it beside `Success`."""
RESULT_TAG = "hybrid/result"
"""Tag with what `Success` alone would hide of a Dagster run, such as that a range has no rows."""
PIPELINE_TAG = "hybrid/pipeline"
"""Tag of a pipeline's jobs and of their runs, with its name: lists are filtered by it."""
APPROVED = "approved"
"""Name of the check that says whether a person has approved the plan."""
POOL = "spark"
"""Pool of the steps that start a Spark driver; it has no limit unless the instance sets one."""


def live_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's last source: ``[pipeline, source]``.

    That is the asset of the live run, if the source is unbounded.
    """
    return step_key(loaded, loaded.pipeline.sources[-1].name)


def table_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset that is a pipeline's target table: ``[pipeline, "table"]``.

    For definitions that depend on the table.
    """
    return step_key(loaded, "table")


def table_group(loaded: LoadedPipeline) -> str:
    """Return the name of the asset group of a table: ``about.group``, or the pipeline's name."""
    return loaded.pipeline.about.group or loaded.pipeline.name


def steps_group(loaded: LoadedPipeline) -> str:
    """Return the name of the asset group with the steps of a pipeline's chain, and its progress."""
    group = loaded.pipeline.about.group
    return loaded.pipeline.name if group is None else f"{group}_steps"


def control_name(loaded: LoadedPipeline) -> str:
    """Return ``<pipeline>_control``: the job that pauses, resumes, stops and approves."""
    return f"{loaded.pipeline.name}_control"


def generation_name(loaded: LoadedPipeline) -> str:
    """Return ``<pipeline>_generation``: the job that promotes and discards generations."""
    return f"{loaded.pipeline.name}_generation"


def plan_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's plan: ``[pipeline, "plan"]``."""
    return step_key(loaded, PlanStep.name)


def step_key(loaded: LoadedPipeline, step: str) -> dg.AssetKey:
    """Return the key of the asset of a step of the chain: ``[pipeline, step]``.

    Args:
        loaded: The pipeline.
        step: Name of the step, such as ``plan``, ``history`` or ``live_handover``.
    """
    return dg.AssetKey([loaded.pipeline.name, step])


def note_on_run(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, tags: Mapping[str, str]
) -> None:
    """Add tags to the present Dagster run, to find and filter it in the UI."""
    context.instance.add_run_tags(context.run.run_id, dict(tags))


def role_of(loaded: LoadedPipeline, generation: str) -> str:
    """Return a generation's name and role, such as ``g2, a candidate: …``, for people.

    Args:
        loaded: The pipeline.
        generation: Name of the generation.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """
    if candidate_name(loaded) == generation:
        return f"{generation}, a candidate: readers do not see it until it is promoted"
    if generation == FIRST and newest_generation(loaded) == FIRST:
        return f"{generation}, the first one"
    if is_replaced(loaded, generation):
        return f"{generation}, which readers saw earlier: it is kept for a rollback"
    return f"{generation}, which readers see"
