"""Approval of a plan by a person: kept with the generation, required before each step.

Only a pipeline that declares ``approve: true`` needs one. Whoever can write the state folder can
approve; the name that is kept is what they gave, and proves nothing. ``approvers`` is therefore a
guard against mistakes, unless the name comes from a proxy that authenticates.
"""

from __future__ import annotations

import hashlib

from sources.common.state_document import Record
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.errors import InputError, StateError
from sources.planning.context import PipelineContext
from sources.planning.plan import find_plan
from sources.state.action_log import recorded
from sources.state.generation import PLAN, Generation

_APPROVAL = "approval.json"
# Of a digest, in the log of actions.
_SHOWN = 12
HOW_TO_APPROVE = "Read the plan (`hybrid plan P`), then approve it: `hybrid approve P --by NAME`."
"""What to do about a plan that is not approved: a hint."""


class NotApprovedError(StateError):
    """Error of a step whose plan nobody has approved yet: it waits, and nothing has failed."""


class Approval(Record):
    """Approval of a generation's plan by a person, as the state folder keeps it.

    Attributes:
        plan: SHA-256 digest of the plan's document when it was approved.
        by: Name of the person, as given; not verified.
        at_ms: When the plan was approved: Unix time in milliseconds.
    """

    plan: str
    by: str
    at_ms: int


def approve(loaded: LoadedPipeline, by: str) -> Approval:
    """Approve the plan of the newest generation, and write the approval to its state.

    Recorded in the log of actions. If the same plan is approved already, that first approval stays
    and is returned.

    Args:
        loaded: The pipeline.
        by: Name of the person who approves.

    Raises:
        InputError: The pipeline does not declare ``approve: true``, or the name is empty or not one
            of its ``approvers``.
        StateError: There is no plan, or the declaration changed in a way that the checkpoint can't
            follow.
        UnavailableError: The state's store does not answer.
    """
    name = loaded.pipeline.name
    if not loaded.pipeline.approve:
        message = f"Pipeline `{name}` needs no approval."
        hint = (
            "Declare `approve: true` if its plan has to be approved; without it, run the pipeline "
            "right away: `hybrid run P`."
        )
        raise InputError(message, hint, pipeline=name, field="approve")
    if not by.strip():
        message = "The name of the person who approves is empty."
        hint = "Give the name: `hybrid approve P --by NAME`."
        raise InputError(message, hint, pipeline=name)
    require_approver(loaded.pipeline, by, "approve a plan")
    generation = loaded.require_generation()
    if (plan := _plan_digest(generation)) is None:
        message = f"There is no plan of pipeline `{name}` to approve."
        hint = "Make the plan and read it: `hybrid plan P`. Then approve it."
        raise StateError(message, hint, pipeline=name, generation=generation.info.generation)
    standing = generation.read(_APPROVAL, Approval)
    if standing is not None and standing.plan == plan:
        return standing
    made = Approval(plan=plan, by=by.strip(), at_ms=now_ms())
    with recorded(loaded.state, "approve", by, generation.name) as after:
        standing = generation.put_if_absent(_APPROVAL, made)
        after["plan"] = plan[:_SHOWN]
        if standing.plan == plan:
            return standing
        # It was for an earlier plan, and is replaced.
        generation.replace(_APPROVAL, made)
    return made


def require_approver(pipeline: Pipeline, by: str | None, to_do: str) -> str | None:
    """Refuse a person who is not among ``approvers``; without ``approvers`` anyone may approve.

    Args:
        pipeline: The pipeline's declaration.
        by: Name of the person, as given; None if no name was given.
        to_do: What they are about to do, such as ``promote a generation``.

    Returns:
        The name without spaces around it; None if no name was given.

    Raises:
        InputError: The pipeline declares ``approvers``, and the name is missing, empty or another
            one. Upper and lower case are different.
    """
    name = (by or "").strip()
    if not pipeline.approvers or name in pipeline.approvers:
        return name or None
    allowed = ", ".join(pipeline.approvers)
    who = f"`{name}` may not" if name else "No name is given of the person who is to"
    message = (
        f"{who} {to_do} of pipeline `{pipeline.name}`. Its `approvers` are: {allowed}. Nothing was "
        "changed."
    )
    hint = (
        "Let one of them repeat it under their own name (`--by NAME`, in Dagster the field `by`); "
        "or add the name to `approvers` in the pipeline's file."
    )
    raise InputError(message, hint, pipeline=pipeline.name, field="approvers", value=name)


def find_approval(generation: Generation) -> Approval | None:
    """Read the approval of a generation's present plan; None if it is not approved.

    None, too, if there is no plan, or the approval was given to an earlier plan.

    Args:
        generation: State of the generation (one computation of the whole table).

    Raises:
        StateError: The approval is damaged.
        UnavailableError: The state's store does not answer.
    """
    approval = generation.read(_APPROVAL, Approval)
    is_current = approval is not None and approval.plan == _plan_digest(generation)
    return approval if is_current else None


def require_approved(context: PipelineContext) -> None:
    """Refuse a step of the chain if its plan needs an approval that is missing.

    Called before each launch and hand-over, and by each driver when it starts.

    Args:
        context: The pipeline and its state.

    Raises:
        NotApprovedError: The pipeline declares ``approve: true``, and its plan was not approved.
        StateError: Its plan is missing.
        UnavailableError: The state's store does not answer.
    """
    pipeline, generation = context.pipeline, context.generation
    if not pipeline.approve or find_approval(generation) is not None:
        return
    is_planned = find_plan(generation) is not None
    kind = NotApprovedError if is_planned else StateError
    message = f"The plan of `{pipeline.name}` is not {'approved' if is_planned else 'made'} yet."
    raise kind(
        message,
        HOW_TO_APPROVE,
        pipeline=pipeline.name,
        generation=generation.info.generation,
    )


def _plan_digest(generation: Generation) -> str | None:
    text = generation.read_bytes(PLAN)
    return None if text is None else hashlib.sha256(text).hexdigest()
