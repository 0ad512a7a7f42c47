"""Action REPAIR of the control job in Dagster: write rows that differ from the captured table."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.repair.run import look, repair
from orchestration.attribution import acting_user
from orchestration.defs.assets.table import kept_action, last_action
from orchestration.defs.jobs.action_form import text_field
from orchestration.defs.jobs.actions import Action
from orchestration.defs.keys import RESULT_TAG, note_on_run, table_key
from orchestration.defs.show.dagster_remedies import say_in
from sources.common.durations import parse_duration
from sources.config.loader import LoadedPipeline

_TEXT = (
    "compares the table with the database table that it captures, and with `apply` writes the rows "
    "that differ; the stream continues, and its later changes win"
)


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the action REPAIR of the control job; empty if the pipeline captures no table."""
    if all(source.snapshot is None for source in loaded.pipeline.sources):
        return {}
    fields = {
        "where": text_field("Only rows that meet this SQL condition, such as `id IN (3, 5)`."),
        "keys": text_field("Only these keys, as JSON: `3, 5`, or `[1, 2], [1, 3]`; or a file."),
        "apply": dg.Field(
            bool, default_value=False, description="Write the rows; else only show how many."
        ),
        "within": text_field(
            "How long to wait for open transactions, and for the live run, such as 10 min.", "1 h"
        ),
    }
    return {"REPAIR": Action(repair_table, _TEXT, fields)}


def repair_table(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Repair the table, or show what differs; an observation of the table says what was done.

    Runs as an action of the control job.

    Args:
        context: The job's Dagster run.
        loaded: The pipeline.
        config: The form, with ``where``, ``apply``, ``within`` and ``by``.

    Raises:
        InputError: ``within`` is no duration, or ``by`` is not who is logged in; or as
            :func:`hybrid_extensions.repair.run.repair`.
        StateError, RunError, UnavailableError: As that function.
    """
    limit, where, say = parse_duration(config.within), config.where or None, say_in(context, loaded)
    keys = config.keys or None
    if not config.apply:
        found = look(loaded, limit, where, say, keys)
        note_on_run(context, {RESULT_TAG: "dry run"})
    else:
        by = acting_user(context.run.tags, config.by)
        found = repair(loaded, limit, where, say, by, keys)
    shown = {
        "missing": found.found.missing,
        "different": found.found.different,
        "extra": found.found.extra,
        "files": found.files,
        "keys": "\n".join(found.found.keys),
    }
    context.add_output_metadata(shown)
    if found.is_applied:
        before = kept_action(context.instance, loaded)
        observed = {**before, **last_action(f"REPAIR: {found.text}")}
        key = table_key(loaded)
        context.log_event(dg.AssetObservation(key, description=found.text, metadata=observed))
    say(found.text)
