"""Check `equals_database`, action COMPARE and schedule in Dagster: when it fails or warns."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.cdc.compared.kept_compare import KeptCompare
from hybrid_extensions.compare.compare_ranges import compare_ranges
from hybrid_extensions.compare.declare import EQUALS, CompareSection
from hybrid_extensions.compare.live_run_state import look_at_run
from hybrid_extensions.schedules.ticks import schedule
from orchestration.defs.checks.from_job import report_check
from orchestration.defs.jobs.actions import Action
from orchestration.defs.keys import ACTION_TAG, RESULT_TAG, control_name, note_on_run, table_key
from orchestration.defs.show.dagster_failures import failures
from orchestration.defs.show.dagster_remedies import in_dagster
from orchestration.defs.show.markdown import code_span
from sources.common.counting import counted
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.generations import acting_on

ACTION = "COMPARE"


def compare(context: dg.OpExecutionContext, loaded: LoadedPipeline, _: Any) -> None:
    """Compare further ranges of the table with the database, and report the check's result.

    The action COMPARE of the control job. Differences fail the check, not the job.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline, which declares ``compare``.
        _: The form, which has no fields for it.

    Raises:
        InputError: One of the two tables can't be read.
        StateError: The state can't be read or written.
        UnavailableError: The database, a store or a broker does not answer.
    """
    kept = _compare(loaded, context.log.info)
    found = _result(loaded, kept)
    report_check(context.instance, table_key(loaded), EQUALS, found)
    if not found.passed:
        differ = counted(kept.differing, "key differs", "keys differ")
        note_on_run(context, {RESULT_TAG: differ if kept.differing else "not all compared"})
    context.log.info(in_dagster(kept.text, loaded))


def compare_checks(loaded: LoadedPipeline) -> list[dg.AssetChecksDefinition]:
    """Return the check ``equals_database`` of a table; empty unless ``compare`` is declared."""
    if loaded.section(CompareSection).compare is None:
        return []

    @dg.asset_check(
        name=EQUALS,
        asset=table_key(loaded),
        description=(
            "The table has the rows of the database table that it captures, by the latest "
            "comparison of each range. A failure stays until the same range is equal. It warns if "
            "the table was not compared as a whole yet, or could not be this time. Evaluated "
            f"by COMPARE of the job `{control_name(loaded)}`, or by hand: it reads both tables."
        ),
    )
    def equals_database() -> dg.AssetCheckResult:
        with failures(loaded):
            return _result(loaded, _compare(load_pipeline(loaded.path), lambda _: None))

    return [equals_database]


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the check and the schedule that ``compare`` declares; none without it."""
    declared = loaded.section(CompareSection).compare
    if declared is None:
        return dg.Definitions()
    job = control_name(loaded)
    form = {"ops": {f"do_{job}": {"config": {"action": ACTION}}}}
    tags = {ACTION_TAG: ACTION}
    request = {"run_config": form, "tags": tags}
    return dg.Definitions(
        asset_checks=compare_checks(loaded),
        schedules=[schedule(loaded, declared, job, lambda: request, job, tags)],
    )


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the action COMPARE of a pipeline's control job, if it declares ``compare``.

    Empty if it does not.
    """
    if loaded.section(CompareSection).compare is None:
        return {}
    text = (
        "compares further ranges of the table with the database, as `compare` declares, and "
        "evaluates the check `equals_database`; changes nothing"
    )
    return {ACTION: Action(compare, text, {})}


def _compare(loaded: LoadedPipeline, say: Any) -> KeptCompare:
    acting = acting_on(loaded, None)
    return compare_ranges(acting, acting.require_generation(), lambda: look_at_run(acting), say)


def _result(loaded: LoadedPipeline, kept: KeptCompare) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=kept.is_answered and not kept.differing,
        severity=dg.AssetCheckSeverity.ERROR if kept.is_wrong else dg.AssetCheckSeverity.WARN,
        description=in_dagster(kept.text, loaded),
        metadata={
            "differing keys": kept.differing,
            "examples": dg.MetadataValue.md(
                "\n".join(f"- {code_span(each)}" for each in kept.examples)
            ),
            "ranges": len(kept.ranges),
            "rows": sum(each.rows for each in kept.ranges),
            "last whole comparison": (
                dg.MetadataValue.timestamp(kept.finished_ms / 1000)
                if kept.finished_ms is not None
                else "none"
            ),
        },
    )
