"""Schedules of a pipeline: what a missed tick and an overlapping one come to, in one place."""

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
    """A schedule that runs by itself; ticks that come at once make one run.

    Args:
        loaded: The pipeline.
        declared: When.
        job: The job's definition.
        request: What of a ``RunRequest`` is to be said, or why there is none.
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
        # Ticks that were missed come all at once: the first of them is enough.
        there = context.instance.get_runs(
            filters=dg.RunsFilter(job_name=job.name, statuses=_UNDER_WAY), limit=1
        )
        if there:
            return dg.SkipReason(f"Run {there[0].run_id} is under way.")
        asked = request()
        return dg.SkipReason(asked) if isinstance(asked, str) else dg.RunRequest(**asked)

    return tick
