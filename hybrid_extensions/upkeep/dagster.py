"""Upkeep of the target in Dagster: actions of the control job, and the schedules that launch it."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.schedules.ticks import schedule
from hybrid_extensions.upkeep import compaction, vacuum
from hybrid_extensions.upkeep.declare import Upkeep, UpkeepSection
from orchestration.attribution import acting_user
from orchestration.defs.jobs.actions import Action
from orchestration.defs.keys import ACTION_TAG, control_name
from sources.config.loader import LoadedPipeline


def compact(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Compact the small files of the target; report how many there were.

    Runs as the action COMPACT of the control job.

    Raises:
        InputError: ``by`` is not who is logged in; or as
            :func:`hybrid_extensions.upkeep.compaction.compact`.
        StateError, UnavailableError: As that function.
    """
    by = acting_user(context.run.tags, config.by)
    found = compaction.compact(loaded, context.log.info, by)
    context.add_output_metadata(
        {
            "files of history": found.history_files,
            "files of live rows": found.live_files,
            "files now": found.new_files,
            "bytes": found.bytes,
            "commits": found.commits,
        }
    )
    context.log.info(f"Compacted: {compaction.in_words(found)}.")


def delete_unneeded(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Delete unneeded files of the target; report how many there were.

    Runs as the action VACUUM of the control job.

    Raises:
        InputError: ``by`` is not who is logged in; or as
            :func:`hybrid_extensions.upkeep.vacuum.vacuum`.
        StateError, UnavailableError: As that function.
    """
    by = acting_user(context.run.tags, config.by)
    found = vacuum.vacuum(loaded, context.log.info, by)
    context.add_output_metadata({"files deleted": len(found.files), "bytes": found.bytes})
    context.log.info(f"Deleted: {vacuum.in_words(found)}.")


def actions(loaded: LoadedPipeline) -> Mapping[str, Action]:
    """Return the actions COMPACT and VACUUM of a pipeline's control job, by name."""
    del loaded
    return {
        "COMPACT": Action(
            compact,
            "makes few large files of the table's many small ones; the stream continues, and no "
            "row changes",
            {},
        ),
        "VACUUM": Action(
            delete_unneeded,
            "deletes files of the table that neither readers nor a rollback need",
            {},
        ),
    }


def definitions(loaded: LoadedPipeline) -> dg.Definitions:
    """Return the schedules that ``upkeep`` declares, which launch the control job; maybe none."""
    declared = loaded.section(UpkeepSection).upkeep
    return dg.Definitions(schedules=[_schedule(loaded, each) for each in declared])


def _schedule(loaded: LoadedPipeline, declared: Upkeep) -> dg.ScheduleDefinition:
    job = control_name(loaded)
    action = declared.action.upper()
    form = {"ops": {f"do_{job}": {"config": {"action": action}}}}
    tags = {ACTION_TAG: action}
    request = {"run_config": form, "tags": tags}
    return schedule(loaded, declared, job, lambda: request, job, tags)
