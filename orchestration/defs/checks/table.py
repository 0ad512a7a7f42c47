"""Checks of the target table: the pipeline's health, and a candidate's differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from orchestration.comparison.compare_generations import compare_generations, pair
from orchestration.comparison.installed_audit import installed_audit
from orchestration.defs.assets.table import (
    card_and_facts,
    card_metadata,
    kept_action,
    last_action,
    last_day,
    table_metadata,
)
from orchestration.defs.checks.audit import audit_again, audited_check
from orchestration.defs.keys import generation_name, table_key
from orchestration.defs.show import generation_metadata
from orchestration.defs.show.dagster_failures import failures
from orchestration.supervision.card import STARTING, Card
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.kept_definitions import changed_since
from sources.serving import candidate_name, read_serving

HEALTHY = "healthy"
"""Name of the check that says how the pipeline is."""
COMPARED = "same_rows"
"""Name of the check that compares the candidate's rows with those that readers see."""
_NO_CANDIDATE = "Nothing was compared: there is no candidate."


def table_checks(loaded: LoadedPipeline) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a pipeline's table: ``healthy``, ``same_rows`` and ``audited``.

    The last one is there if an extension audits tables.

    The supervision evaluates the first one, the job ``<name>_generation`` the second one, and an
    audit the third one; all can be run by hand.
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

    @dg.asset_check(
        name=COMPARED,
        asset=key,
        description=(
            "The candidate has all rows that readers see, with the same values unless the "
            "pipeline's file or its code was changed since. Evaluated by "
            f"COMPARE of the job `{generation_name(loaded)}`, or by hand: it reads both tables."
        ),
    )
    def same_rows() -> dg.AssetCheckResult:
        with failures(loaded):
            fresh = load_pipeline(loaded.path)
            if candidate_name(fresh) is None:
                warn = dg.AssetCheckSeverity.WARN
                return dg.AssetCheckResult(passed=False, severity=warn, description=_NO_CANDIDATE)
            found = compare_generations(fresh)
            return generation_metadata.compared(found, changed_since(fresh, found.serving))

    audited = [] if installed_audit() is None else [audited_check(loaded)]
    return [healthy, same_rows, *audited]


def report_table(
    context: dg.OpExecutionContext,
    loaded: LoadedPipeline,
    what: str,
) -> None:
    """Report a job's action on the table's page; do nothing before the table exists.

    Dagster shows a check as not evaluated after each materialization, so those that need no reading
    of rows come with it, and so does the last comparison of a candidate that still waits. The
    materialization belongs to no run, as these evaluations: otherwise Dagster orders them by time,
    and keeps that of an evaluation in whole seconds.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        what: What was done, in a sentence.

    Raises:
        StateError: The state can't be read.
        InputError: The table can't be read.
        UnavailableError: A store or a broker does not answer.
    """
    seen, facts = card_and_facts(loaded)
    if facts is None:
        return
    shown = {
        **kept_action(context.instance, loaded),
        **last_action(what),
        **card_metadata(seen),
        **last_day(seen),
        **table_metadata(loaded, facts),
    }
    made = dg.AssetMaterialization(table_key(loaded), description=what, metadata=shown)
    context.instance.report_runless_asset_event(made)
    audited = audit_again(context.instance, loaded)
    compared = comparison_again(context.instance, loaded)
    for each in (health_evaluation(loaded, seen, None), audited, compared):
        if each is not None:
            # A job without assets may evaluate no check itself.
            context.instance.report_runless_asset_event(each)


def comparison_again(
    instance: dg.DagsterInstance, loaded: LoadedPipeline
) -> dg.AssetCheckEvaluation | None:
    """Return the evaluation of ``same_rows`` to report after a materialization of the table.

    Dagster shows a check as not evaluated after each materialization.

    Args:
        instance: Dagster's instance, which keeps the last evaluation.
        loaded: The pipeline.

    Returns:
        The last comparison, which says when it was made, as long as its candidate waits; afterwards
        that there is nothing to compare. None if nothing was ever compared, or the check says so
        already.

    Raises:
        StateError: The state can't be read.
        UnavailableError: The state's store does not answer.
    """
    key = dg.AssetCheckKey(table_key(loaded), COMPARED)
    kept = instance.get_latest_asset_check_evaluation_record(key)
    if kept is None or kept.event is None or (event := kept.event.dagster_event) is None:
        return None
    found = event.event_specific_data
    if not isinstance(found, dg.AssetCheckEvaluation):
        return None
    before, candidate = found.description or "", candidate_name(loaded)
    if candidate is None:
        return None if before == _NO_CANDIDATE else _compared(loaded, _NO_CANDIDATE, passed=True)
    # After a candidate was discarded, another one may have its name.
    is_newer = kept.event.timestamp * 1000 >= loaded.require_generation().info.created_ms
    if is_newer and before.startswith(f"{pair(candidate, read_serving(loaded).generation)}:"):
        return _compared(loaded, before, passed=found.passed, metadata=found.metadata)
    text = f"Nothing was compared: {candidate} was not compared yet."
    return None if before == text else _compared(loaded, text, passed=False)


def _compared(
    loaded: LoadedPipeline, text: str, *, passed: bool, metadata: Mapping[str, Any] | None = None
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=table_key(loaded),
        check_name=COMPARED,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=text,
        metadata=metadata or {},
    )


def health_evaluation(
    loaded: LoadedPipeline, seen: Card, was_well: bool | None
) -> dg.AssetCheckEvaluation | None:
    """Return a pipeline's health as a check evaluation for a sensor; None if there is no news.

    What a person has paused or stopped warns. What starts or reads history is neither well nor a
    failure: the check then keeps its result, or has none yet. Only after a failure it warns that
    the pipeline is on its way, as reading history may take long.

    Args:
        loaded: The pipeline.
        seen: Its card.
        was_well: Whether the check passed when it was reported last; None if it never was.

    Returns:
        The evaluation; None if the check keeps its result.
    """
    if seen.is_under_way and (was_well is not False or seen.headline == STARTING):
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
