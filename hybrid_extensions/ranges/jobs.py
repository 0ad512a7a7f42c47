"""Jobs that recompute ranges: what pages call them, and which of their runs are one backfill."""

import dagster as dg

from orchestration.defs.jobs.added_jobs import AddedJob

BACKFILL = AddedJob("backfill", "_backfill", "recomputes a range of it")
JOBS = [BACKFILL]


def backfill_key(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> str:
    """Return the idempotency key of a run's backfill: the id of the run that began it, shortened.

    A run that executes one again that did not succeed continues its backfill. One that executes a
    run again that succeeded begins another: people ask for it since the files have changed.

    Args:
        context: The run.
    """
    run = context.run
    while run.parent_run_id is not None:
        parent = context.instance.get_run_by_id(run.parent_run_id)
        if parent is None:
            # Deleted, so its outcome is unknown: what is done is not done again.
            return str(run.root_run_id)[:13]
        if parent.is_success:
            break
        run = parent
    return run.run_id[:13]
