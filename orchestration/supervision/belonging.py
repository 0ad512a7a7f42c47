"""Check of the supervision that checkpoint, state and target still belong together.

A run that is stopped or paused is looked at as well: what is green has to be right.
"""

from __future__ import annotations

from orchestration.supervision.rules.verdict import Finding, Verdict
from sources.common.positions import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, InputError
from sources.kept_definitions import in_service
from sources.state.action_log import recorded
from sources.state.generation import Generation
from spark_jobs.run_state.target_record import AcceptedChange
from spark_jobs.table.ownership.belonging import TargetSide, require_belonging
from spark_jobs.table.ownership.starts import accept_foreign_changes


def find_refusal(loaded: LoadedPipeline, generation: Generation) -> ErrorReport | None:
    """Return the error that would refuse the next launch; None if it would be allowed.

    Takes milliseconds: the target's log and a few small files are read.
    """
    try:
        require_belonging(loaded, generation)
    except HybridError as error:
        return error.report()
    return None


def accept_changes(loaded: LoadedPipeline, by: str) -> list[AcceptedChange]:
    """Accept the changes of rows that others made in the tables of the pipeline's generations.

    Args:
        loaded: The pipeline.
        by: Name of the person who accepts; kept with the state, not verified.

    Returns:
        What was accepted; empty if nothing had to be.

    Raises:
        InputError: The name is empty.
        StateError: A run is active, a change can't be accepted, or checkpoint, state and target
            don't belong together otherwise.
    """
    if not by.strip():
        message = "The name of the person who accepts is empty."
        raise InputError(message, "Name the person: `hybrid accept P --by NAME`.", value=by)
    sides = [TargetSide.of(each, each.require_generation()) for each in in_service(loaded)]
    with recorded(loaded.state, "accept changes", by) as after:
        accepted = [
            change
            for side in sides
            for change in accept_foreign_changes(side, by.strip(), now_ms())
        ]
        after["accepted"] = ", ".join(f"version {each.version}" for each in accepted) or "nothing"
    return accepted


def with_refusal(verdict: Verdict, refused: ErrorReport | None) -> Verdict:
    """Return the verdict, as ``failed`` if checkpoint, state and target don't belong together.

    Whatever the process does: it writes to a table that it does not fit, or it can't be started.
    """
    if refused is None:
        return verdict
    alive = Finding(name="alive", passed=False, text=str(refused))
    others = [each for each in verdict.findings if each.name != "alive"]
    changes = {
        "health": "failed",
        "reason": str(refused),
        "down": None,
        "failure": refused,
        "error": str(refused),
        "findings": [alive, *others],
    }
    return verdict.model_copy(update=changes)
