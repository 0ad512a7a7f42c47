"""Job that recomputes a range, as messages and the table's page in Dagster name it."""

from orchestration.defs.jobs.added_jobs import AddedJob

BACKFILL = AddedJob("backfill", "_backfill", "recomputes a range of it")
JOBS = [BACKFILL]
