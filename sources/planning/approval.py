"""A person's word that a plan may run: kept with the generation, asked for before each step.

Only a pipeline that declares ``approve: true`` waits for it. Whoever may write the state folder may
approve: the name that is kept says who did, and proves nothing.
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
    """Who approved which plan.

    Attributes:
        plan: Digest of the plan's document, as it stood then.
        by: Who, in their own words.
        at_ms: When.
    """

    plan: str
    by: str
    at_ms: int


def approve(loaded: LoadedPipeline, by: str) -> Approval:
    """Approve the plan of the current generation; one that is approved stays so, by who was first.

    Args:
        loaded: The pipeline.
        by: Who approves.

    Raises:
        InputError: The pipeline does not wait for an approval, or nobody is named.
        StateError: No plan was made.
    """
    name = loaded.pipeline.name
    if not loaded.pipeline.approve:
        message = f"Pipeline `{name}` does not wait for an approval."
        raise InputError(message, "Declare `approve: true` if it should.")
    if not by.strip():
        raise InputError("Nobody is named who approves.", "Say who: `--by NAME`.")
    generation = loaded.require_generation()
    if (plan := _plan_digest(generation)) is None:
        message = f"There is no plan of `{name}` to approve."
        raise StateError(message, "Make it, and look at it: `hybrid plan`.")
    made = Approval(plan=plan, by=by.strip(), at_ms=now_ms())
    standing = generation.put_if_absent(_APPROVAL, made)
    if standing.plan == plan:
        return standing
    # Of another plan than the one that stands, so it was of no use to anybody.
    generation.replace(_APPROVAL, made)
    return made


def find_approval(generation: Generation) -> Approval | None:
    """The approval of the plan as it stands; None if nobody gave it."""
    found = generation.read(_APPROVAL, Approval)
    return found if found is not None and found.plan == _plan_digest(generation) else None


def require_approved(context: PipelineContext) -> None:
    """Refuse a step whose plan waits for a person.

    Raises:
        StateError: It does.
    """
    pipeline, generation = context.pipeline, context.generation
    if not pipeline.approve or find_approval(generation) is not None:
        return
    is_planned = generation.read(_PLAN, Plan) is not None
    message = f"The plan of `{pipeline.name}` is not {'approved' if is_planned else 'made'} yet."
    raise StateError(message, how_to_approve(pipeline.name), pipeline=pipeline.name)


def how_to_approve(name: str) -> str:
    """What a person has to do so that a pipeline goes on."""
    return (
        "Look at the plan (`hybrid plan`, or the asset `plan` in Dagster), then approve it: "
        f"`hybrid approve`, or the job `{name}_approve` in Dagster."
    )


def _plan_digest(generation: Generation) -> str | None:
    text = generation.read_bytes(_PLAN)
    return None if text is None else hashlib.sha256(text).hexdigest()
