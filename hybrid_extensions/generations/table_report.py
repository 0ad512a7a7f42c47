"""Report of a job that changed a table on its page in Dagster: what was done, with all checks."""

from __future__ import annotations

import dagster as dg

from orchestration.comparison.installed_audit import audit_again
from orchestration.defs.assets.data_versions import table_tags
from orchestration.defs.assets.table import (
    card_and_facts,
    card_metadata,
    kept_action,
    last_action,
    last_day,
    table_metadata,
)
from orchestration.defs.checks.table import comparison_again, health_evaluation
from orchestration.defs.keys import table_key
from sources.config.loader import LoadedPipeline


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
    tags = table_tags(loaded, facts.version)
    made = dg.AssetMaterialization(table_key(loaded), description=what, metadata=shown, tags=tags)
    context.instance.report_runless_asset_event(made)
    audited = audit_again(context.instance, loaded)
    compared = comparison_again(context.instance, loaded)
    for each in (health_evaluation(loaded, seen, None), audited, compared):
        if each is not None:
            # A job without assets may evaluate no check itself.
            context.instance.report_runless_asset_event(each)
