"""Actions of the control job in Dagster: AUDIT proves the table, ACCEPT_AUDIT accepts a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.audit.acceptance import accept_audit
from hybrid_extensions.audit.audit_check import (
    audit_again,
    audit_evaluation,
    audited_check,
    examples_of,
    ways_out,
)
from hybrid_extensions.audit.run import audit
from hybrid_extensions.comparison.audit_metadata import audited
from hybrid_extensions.comparison.compared_tables import of_one_generation
from hybrid_extensions.comparison.keeping_audits import keep_audit
from orchestration.attribution import acting_user
from orchestration.defs.assets.table import kept_action, last_action
from orchestration.defs.jobs.action_form import text_field
from orchestration.defs.jobs.actions import Action
from orchestration.defs.jobs.control_form import OF_GENERATION, acting_generation
from orchestration.defs.keys import RESULT_TAG, note_on_run, table_key
from orchestration.defs.show.reports import report_now
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, leaving
from sources.serving import declared_generation, read_serving

_OF_SERVING = "The check `audited` has examples. {} It stays red"
_ACCEPT = "ACCEPT_AUDIT"
_OF_CANDIDATE = (
    "The page of `table` has examples. If the transform was changed, change the audit's query in "
    "the same way, and audit again. What differs from the rows that readers see, to whom the check "
    "`audited` still applies, is shown by `hybrid generation compare P`. The check `healthy` names "
    "the candidate"
)


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the check of the last audit's verdict."""
    return dg.Definitions(asset_checks=[audited_check(loaded)])


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the actions AUDIT and ACCEPT_AUDIT of a pipeline's control job, by name."""
    del loaded
    text = (
        "computes the table from all files and records by DuckDB, without Spark, and compares it "
        "row by row; changes nothing"
    )
    accepts = (
        "records that you accept the last audit although it failed; the table is no longer told as "
        "wrong, and its check becomes a warning with your reason"
    )
    why = text_field("The reason, shown with the verdict; an audit is only accepted for one.")
    by = text_field("Your name, which is kept and shown; else that of the login, if there is one.")
    return {
        "AUDIT": Action(audit_table, text, OF_GENERATION),
        _ACCEPT: Action(accept, accepts, {"why": why, "by": by, **OF_GENERATION}),
    }


@leaving("The table was not changed.")
def audit_table(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Audit a generation's table; keep the result, and evaluate the check `audited` by it.

    The check is about what readers see: by the audit of another generation it is not evaluated.

    Dagster's job ``<pipeline>_control`` runs it if its action AUDIT is chosen.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: What people entered at the launch: ``generation``, empty for the serving one.

    Raises:
        InputError: The audit found that the table is wrong; or as
            :func:`hybrid_extensions.audit.run.audit`.
        StateError, UnavailableError: As that function.
    """
    acting = of_one_generation(acting_generation(context, loaded, config))
    found = audit(acting)
    kept = keep_audit(acting, found)
    shown = {**audited(kept, loaded), **examples_of(found)}
    which = declared_generation(acting)
    is_serving = which == read_serving(loaded).generation
    text = _of(which, kept.text, is_serving=is_serving)
    context.add_output_metadata(shown)
    # An observation: the table is as it was, and nothing downstream has to follow.
    before = kept_action(context.instance, loaded)
    observed = {**before, **last_action(f"AUDIT: {text}"), **shown}
    context.log_event(dg.AssetObservation(table_key(loaded), description=text, metadata=observed))
    if is_serving:
        # A job without assets may evaluate no check itself.
        context.instance.report_runless_asset_event(audit_evaluation(loaded, kept, found))
    if found.outcome == "unknown":
        note_on_run(context, {RESULT_TAG: "not all checked"})
    if found.outcome == "failed":
        where = _OF_SERVING.format(ways_out(loaded)) if is_serving else _OF_CANDIDATE
        more = (
            f"{where} until another audit passes, or "
            f"somebody accepts this one: this job with the action {_ACCEPT}, the reason as `why` "
            f"and `generation: {which}`."
        )
        raise InputError(text, more, pipeline=loaded.pipeline.name)
    # The table's page would go on to say that it was never audited until the next look.
    report_now(context, loaded, f"AUDIT: {text}")


@leaving("The table was not changed.")
def accept(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Accept the last audit of a generation, which failed; the check `audited` tells who and why.

    Dagster's job ``<pipeline>_control`` runs it if its action ACCEPT_AUDIT is chosen.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: What people entered at the launch: ``why``, ``by``, and ``generation``, empty for
            the serving one.

    Raises:
        InputError: There is no reason, the last audit has not failed, or ``by`` is not who is
            logged in.
        StateError: The state can't be read or written.
        UnavailableError: The state's store does not answer.
    """
    acting = acting_generation(context, loaded, config)
    kept = accept_audit(acting, config.why, acting_user(context.run.tags, config.by))
    if (again := audit_again(context.instance, loaded)) is not None:
        context.instance.report_runless_asset_event(again)
    which = declared_generation(acting)
    text = _of(which, kept.text, is_serving=which == read_serving(loaded).generation)
    report_now(context, loaded, f"{_ACCEPT}: {text}")


def _of(generation: str | None, text: str, *, is_serving: bool) -> str:
    """Return a verdict as the table's page may show it, where "the table" is what readers see."""
    return text if is_serving else f"{generation}, which readers do not see: {text}"
