"""Approval of a plan by a person: kept with the generation, required before each step.

Only a pipeline that declares ``approve: true`` needs one. Whoever can write the state folder can
approve; the name that is kept is what they gave, and proves nothing.
"""

from __future__ import annotations

import hashlib

from sources.common.positions import Record, now_ms
from sources.common.state import Generation
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, StateError
from sources.planning.context import PipelineContext
from sources.planning.plan import Plan

_APPROVAL = "approval.json"
_PLAN = "plan.json"


class Approval(Record):
    """Approval of a plan.

    Attributes:
        plan: Digest of the plan's document when it was approved.
        by: Name of the person, as given.
        at_ms: When it was approved, in milliseconds.
    """

    plan: str
    by: str
    at_ms: int


def approve(loaded: LoadedPipeline, by: str) -> Approval:
    """Approve the plan of the current generation; if it is approved, the first approval stays.

    Args:
        loaded: The pipeline.
        by: Name of the person who approves.

    Raises:
        InputError: The pipeline needs no approval, or the name is empty.
        StateError: There is no plan.
    """
    name = loaded.pipeline.name
    if not loaded.pipeline.approve:
        message = f"Pipeline `{name}` needs no approval."
        hint = "Declare `approve: true` if it should."
        raise InputError(message, hint, pipeline=name, field="approve")
    if not by.strip():
        message = "The name of the person who approves is empty."
        raise InputError(message, "Give it: `--by NAME`.", pipeline=name)
    generation = loaded.require_generation()
    if (plan := _plan_digest(generation)) is None:
        message = f"There is no plan of `{name}` to approve."
        raise StateError(message, "Make it, and read it: `hybrid plan`.", pipeline=name)
    made = Approval(plan=plan, by=by.strip(), at_ms=now_ms())
    standing = generation.put_if_absent(_APPROVAL, made)
    if standing.plan == plan:
        return standing
    # It was for an earlier plan, and is replaced.
    generation.replace(_APPROVAL, made)
    return made


def find_approval(generation: Generation) -> Approval | None:
    """Return the approval of the current plan, or None."""
    approval = generation.read(_APPROVAL, Approval)
    is_current = approval is not None and approval.plan == _plan_digest(generation)
    return approval if is_current else None


def require_approved(context: PipelineContext) -> None:
    """Refuse a step whose plan needs an approval that was not given.

    Args:
        context: The pipeline and its state.

    Raises:
        StateError: The approval is missing.
    """
    pipeline, generation = context.pipeline, context.generation
    if not pipeline.approve or find_approval(generation) is not None:
        return
    is_planned = generation.read(_PLAN, Plan) is not None
    message = f"The plan of `{pipeline.name}` is not {'approved' if is_planned else 'made'} yet."
    raise StateError(message, how_to_approve(pipeline.name), pipeline=pipeline.name)


def how_to_approve(name: str) -> str:
    """Return the hint that says how a plan is approved.

    Args:
        name: Name of the pipeline.
    """
    return (
        "Read the plan (`hybrid plan`, or the asset `plan` in Dagster), then approve it: "
        f"`hybrid approve`, or the job `{name}_approve` in Dagster."
    )


def _plan_digest(generation: Generation) -> str | None:
    text = generation.read_bytes(_PLAN)
    return None if text is None else hashlib.sha256(text).hexdigest()
