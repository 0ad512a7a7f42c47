"""Schedules of a pipeline, with the rule for missed and overlapping ticks."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from hybrid_extensions.schedules.schedule import Schedule
from orchestration.attribution import SCHEDULE_TAG
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


def schedule(
    loaded: LoadedPipeline,
    declared: Schedule,
    target: Any,
    request: Callable[[], Mapping[str, Any] | str],
    job: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.ScheduleDefinition:
    """Return a schedule that is on by default; a tick is skipped while its job runs.

    So of missed ticks, which Dagster delivers together, only the first one launches a run.

    Args:
        loaded: The pipeline.
        declared: Name, cron expression and time zone.
        target: Definition of the job or of the asset that is launched, or the name of a job.
        request: Called at each tick: returns arguments of a ``RunRequest`` by name, or the reason
            to skip the tick.
        job: Name of the job whose runs keep a tick from launching another one; by default only runs
            of the schedule itself do.
        tags: Tags by which those runs differ from others of the job.

    Raises:
        InputError: No time fits the cron expression, such as one of the hour 25.
    """
    name = f"{loaded.pipeline.name}_{declared.name}"

    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        # Missed ticks come all at once: the first of them is enough.
        same = {SCHEDULE_TAG: name} if job is None else dict(tags or {})
        there = context.instance.get_runs(
            filters=dg.RunsFilter(job_name=job, statuses=_UNDER_WAY, tags=same), limit=1
        )
        if there:
            return dg.SkipReason(
                f"Dagster run {there[0].run_id} of the same kind has not ended, so this tick is "
                "skipped."
            )
        made = request()
        if isinstance(made, str):
            return dg.SkipReason(made)
        return dg.RunRequest(**made)

    try:
        return dg.schedule(
            name=name,
            **({"job_name": target} if isinstance(target, str) else {"target": target}),
            cron_schedule=declared.cron,
            execution_timezone=declared.timezone,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description=declared.text,
        )(tick)
    except dg.DagsterInvalidDefinitionError:
        message = (
            f"Schedule `{declared.name}`: no time fits its `cron`, `{declared.cron}` (minute, "
            "hour, day, month, day of the week)."
        )
        hint = "Write one such as `0 3 * * *`, which means every night at three."
        raise InputError(message, hint, field="cron", value=declared.cron) from None
