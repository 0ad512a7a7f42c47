"""What would refuse the next launch, checked by the supervision; changes by others accepted.

A run that is stopped or paused is checked as well: what is green has to be right.
"""

from __future__ import annotations

from orchestration.supervision.rules.verdict import Finding, Verdict
from sources.common.times import now_ms
from sources.config.loader import LoadedPipeline
from sources.errors import ErrorReport, HybridError, InputError
from sources.kept_definitions import in_service
from sources.state.action_log import recorded
from sources.state.generation import Generation
from spark_jobs.run_state.target_record import AcceptedChange
from spark_jobs.table.ownership.belonging import TargetSide, require_belonging
from spark_jobs.table.ownership.target_records import accept_foreign_changes


def find_refusal(loaded: LoadedPipeline, generation: Generation) -> ErrorReport | None:
    """Return the error that would refuse the next launch; None if it would be allowed.

    A launch is refused if checkpoint, state and target do not belong together, such as after one of
    them was restored alone. Raises none of these. Takes milliseconds: the target's log and a few
    small files are read.
    """
    try:
        require_belonging(loaded, generation)
    except HybridError as error:
        return error.report()
    return None


def accept_changes(loaded: LoadedPipeline, by: str) -> list[AcceptedChange]:
    """Accept the changes of rows that others made in the tables of the pipeline's generations.

    Until then such changes refuse each launch.

    Args:
        loaded: The pipeline.
        by: Name of the person who accepts; kept with the state, not verified.

    Returns:
        The commits that were accepted; empty if there was nothing to accept.

    Raises:
        InputError: The name is empty.
        StateError: Nothing was planned yet, a run is active, a change can't be accepted, or
            checkpoint, state and target don't belong together otherwise.
        UnavailableError: A store does not answer.
    """
    if not by.strip():
        message = "The name of the person who accepts is empty. Nothing was accepted."
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
    """Return the verdict, as ``failed`` if the next launch is refused. A pure function.

    Even of a process that runs: it writes to a table that it does not fit.

    Args:
        verdict: The verdict without it.
        refused: The error of :func:`find_refusal`; None if there is none.
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
