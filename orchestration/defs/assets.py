"""What all definitions of a pipeline share: keys of its assets, and tags of its runs."""

import dagster as dg

from orchestration.chain import PlanStep
from orchestration.defs import metadata
from orchestration.defs.failures import failures
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.planning.approval import find_approval

RESTART_TAG = "hybrid/restart"
"""Tag of a Dagster run that the supervision requested; a run that people start has none."""
DECLARATION_TAG = "hybrid/declaration"
"""Tag with the pipeline's file to use: the generation that serves may have a copy of its own."""
APPROVED = "approved"
"""Name of the check that holds the chain until a person has approved its plan."""


def live_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's last source: ``[pipeline, source]``."""
    return step_key(loaded, loaded.pipeline.sources[-1].name)


def resume_name(loaded: LoadedPipeline) -> str:
    """Return the name of the job that starts a live run that was stopped, paused or drained."""
    return f"{loaded.pipeline.name}_resume"


def plan_key(loaded: LoadedPipeline) -> dg.AssetKey:
    """Return the key of the asset of a pipeline's plan: ``[pipeline, "plan"]``."""
    return step_key(loaded, PlanStep.name)


def approval_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check that stops the chain after its plan until a person has approved the plan.

    It blocks: steps after the plan don't start while it fails. Only for ``approve: true``.
    """

    @dg.asset_check(
        name=APPROVED,
        asset=plan_key(loaded),
        blocking=True,
        description="A person has approved the plan; no later step starts before that.",
    )
    def approved() -> dg.AssetCheckResult:
        fresh = load_pipeline(loaded.path)
        with failures():
            given = find_approval(fresh.require_generation())
        return metadata.approval(fresh.pipeline.name, given)

    return approved


def step_key(loaded: LoadedPipeline, step: str) -> dg.AssetKey:
    """Return the key of the asset of a step of the chain: ``[pipeline, step]``.

    Args:
        loaded: The pipeline.
        step: Name of the step, such as ``plan``, ``history`` or ``live_handover``.
    """
    return dg.AssetKey([loaded.pipeline.name, step])
