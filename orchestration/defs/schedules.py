"""Schedules of a pipeline: the one rule for missed and overlapping ticks."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from sources.config.loader import LoadedPipeline
from sources.config.reruns import Schedule

_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def schedule(
    loaded: LoadedPipeline,
    declared: Schedule,
    job: Any,
    request: Callable[[], Mapping[str, Any] | str],
) -> dg.ScheduleDefinition:
    """Return a schedule that is on by default; a tick is skipped while a run of its job goes on.

    So of missed ticks, which Dagster delivers together, only the first one launches a run.

    Args:
        loaded: The pipeline.
        declared: Name, cron expression and time zone.
        job: Definition of the job that is launched.
        request: Called at each tick: returns arguments of a ``RunRequest``, or the reason to skip
            the tick.
    """
    name = f"{loaded.pipeline.name}_{declared.name}"

    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=declared.cron,
        execution_timezone=declared.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=" ".join((type(declared).__doc__ or "").partition("\n\n")[0].split()),
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        # Missed ticks come all at once: the first of them is enough.
        there = context.instance.get_runs(
            filters=dg.RunsFilter(job_name=job.name, statuses=_UNDER_WAY), limit=1
        )
        if there:
            return dg.SkipReason(
                f"Dagster run {there[0].run_id} of the same job has not ended, so this tick is "
                "skipped."
            )
        made = request()
        return dg.SkipReason(made) if isinstance(made, str) else dg.RunRequest(**made)

    return tick
