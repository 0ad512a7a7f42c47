"""Acceptance of a failed audit by a person: only of the last one, and only with a reason."""

from __future__ import annotations

from orchestration.comparison.kept_audit import AUDIT, Acceptance, KeptAudit, read_audit
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.state.action_log import recorded


def accept_audit(loaded: LoadedPipeline, why: str, by: str) -> KeptAudit:
    """Record that a person accepts the last audit although it failed; it then no longer counts.

    "No longer counts" means that the pipeline is not unhealthy because of it. It is in the log of
    actions. Accepting it again replaces who and why.

    Args:
        loaded: The pipeline.
        why: The reason, to be shown with the verdict.
        by: Who accepts it; empty if unknown.

    Raises:
        InputError: There is no reason, or the last audit has not failed.
        StateError: Nothing was planned yet, or the state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    generation = loaded.require_generation()
    kept = read_audit(generation)
    if not why.strip():
        message = "A failed audit is only accepted for a reason. Nothing was changed."
        hint = "Give the reason: `hybrid audit P --accept 'the reason'`."
        raise InputError(message, hint, pipeline=loaded.pipeline.name)
    if kept is None or kept.outcome != "failed":
        found = "there is none" if kept is None else kept.text
        message = f"Only a failed audit can be accepted. The last audit: {found}"
        hint = "Nothing has to be accepted. To audit the table as it is now, run `hybrid audit P`."
        raise InputError(message, hint, pipeline=loaded.pipeline.name)
    with recorded(loaded.state, "accept audit", by, generation.name) as after:
        made = kept.model_copy(update={"accepted": Acceptance(at_ms=now_ms(), by=by, why=why)})
        generation.replace(AUDIT, made)
        after["audit"] = "accepted though it failed"
    return made
