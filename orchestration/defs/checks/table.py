"""Check `healthy` of the table: when it fails, warns or keeps its last result."""

from __future__ import annotations

import dagster as dg

from orchestration.defs.assets.table import card_and_facts
from orchestration.defs.jobs.replacement import installed_replacement
from orchestration.defs.keys import table_key
from orchestration.defs.show.dagster_failures import failures
from orchestration.supervision.card import STARTING, Card
from sources.config.loader import LoadedPipeline, load_pipeline

HEALTHY = "healthy"
"""Name of the check that says how the pipeline is."""


def healthy_check(loaded: LoadedPipeline) -> dg.AssetChecksDefinition:
    """Return the check ``healthy`` of a pipeline's table.

    The supervision evaluates it, and it can be run by hand.
    """
    key = table_key(loaded)

    @dg.asset_check(
        name=HEALTHY,
        asset=key,
        description=(
            "The table is complete, or its live run is up and commits what arrives. Not evaluated "
            "while it starts or reads history."
        ),
    )
    def healthy() -> dg.AssetCheckResult:
        with failures(loaded):
            seen, _ = card_and_facts(load_pipeline(loaded.path))
        return dg.AssetCheckResult(
            passed=seen.is_well, severity=_severity(seen), description=_told(seen)
        )

    return healthy


def comparison_again(
    instance: dg.DagsterInstance, loaded: LoadedPipeline
) -> dg.AssetCheckEvaluation | None:
    """Return the last comparison of a candidate, by :meth:`Replacement.check_again`.

    None, too, if no installed extension compares candidates. Errors as there.

    Raises:
        InputError: An extension can't be loaded.
    """
    replacement = installed_replacement()
    return None if replacement is None else replacement.check_again(instance, loaded)


def health_evaluation(
    loaded: LoadedPipeline, seen: Card, was_well: bool | None, *, was_ended: bool = False
) -> dg.AssetCheckEvaluation | None:
    """Return a pipeline's health as a check evaluation for a sensor; None to keep the last result.

    What a person has paused or stopped warns. What starts or reads history is neither well nor a
    failure: the check then keeps its result, or has none yet (None). It warns that the pipeline is
    on its way only after a failure, as reading history may take long, and after a pause or stop,
    which a kept result would still report. In every other case there is an evaluation, even if it
    is the same as the last one.

    Args:
        loaded: The pipeline.
        seen: Its card.
        was_well: Whether the check passed when it was reported last; None if it never was.
        was_ended: Whether people had paused or stopped the live run then.

    Returns:
        The evaluation; None while the pipeline starts or reads history, but for those two cases.
    """
    is_kept = was_well is not False or seen.headline == STARTING
    if seen.is_under_way and is_kept and not was_ended:
        return None
    return dg.AssetCheckEvaluation(
        asset_key=table_key(loaded),
        check_name=HEALTHY,
        passed=seen.is_well,
        severity=_severity(seen),
        description=_told(seen),
        metadata={},
    )


def _severity(seen: Card) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if seen.is_failing else dg.AssetCheckSeverity.WARN


def _told(seen: Card) -> str:
    return f"{seen.text}\n\n{seen.reason}" if seen.reason else seen.text
