"""Upkeep of the target in Dagster: actions of the control job, and the schedules that launch it."""

from typing import Any

import dagster as dg

from orchestration.attribution import acting_user
from orchestration.defs.jobs.schedules import schedule
from orchestration.defs.keys import ACTION_TAG, control_name
from orchestration.generations import compaction, vacuum
from sources.config.loader import LoadedPipeline
from sources.config.table.upkeep import Upkeep


def compact(context: dg.OpExecutionContext, loaded: LoadedPipeline, config: Any) -> None:
    """Compact the small files of the target; report how many there were."""
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
    """Delete files of the target that nobody needs; report how many there were."""
    by = acting_user(context.run.tags, config.by)
    found = vacuum.vacuum(loaded, context.log.info, by)
    context.add_output_metadata({"files deleted": len(found.files), "bytes": found.bytes})
    context.log.info(f"Deleted: {vacuum.in_words(found)}.")


def upkeep_schedules(loaded: LoadedPipeline, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedules that ``upkeep`` declares; empty if there are none.

    Args:
        loaded: The pipeline.
        job: The job ``<name>_control``.
    """
    return [_schedule(loaded, job, each) for each in loaded.pipeline.upkeep]


def _schedule(
    loaded: LoadedPipeline, job: dg.JobDefinition, declared: Upkeep
) -> dg.ScheduleDefinition:
    action = declared.action.upper()
    form = {"ops": {f"do_{control_name(loaded)}": {"config": {"action": action}}}}
    tags = {ACTION_TAG: action}
    request = {"run_config": form, "tags": tags}
    return schedule(loaded, declared, job, lambda: request, job.name, tags)
