"""Automatic restarts of a pipeline's live run, counted from Dagster's runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg

from orchestration.defs.keys import RESTART_TAG
from orchestration.display import moment
from sources.config.loader import LoadedPipeline

_WINDOW = timedelta(hours=24)
_MOST = 1_000


def restarts_of_a_day(instance: dg.DagsterInstance, loaded: LoadedPipeline) -> str | None:
    """Return a sentence with the number of live run restarts in the last 24 h.

    Of more than 1,000 runs of the job only the last 1,000 are looked at.

    Args:
        instance: Dagster's instance, whose runs are counted.
        loaded: The pipeline.

    Returns:
        None if the supervision has restarted nothing.
    """
    launched = instance.get_run_records(
        dg.RunsFilter(job_name=loaded.pipeline.name, created_after=datetime.now(UTC) - _WINDOW),
        limit=_MOST,
    )
    times = [
        each.create_timestamp.timestamp() * 1000
        for each in launched
        if RESTART_TAG in each.dagster_run.tags
    ]
    if not times:
        return None
    often = "once" if len(times) == 1 else f"{len(times):,} times, the last time"
    return (
        f"The supervision restarted the live run {often} on {moment(int(max(times)))} UTC, within "
        "the last 24 h."
    )
