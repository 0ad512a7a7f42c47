"""The job of ranges, as messages and the table's page name it."""

from orchestration.defs.jobs.added_jobs import AddedJob

BACKFILL = AddedJob("backfill", "_backfill", "recomputes a range of it")
JOBS = [BACKFILL]
