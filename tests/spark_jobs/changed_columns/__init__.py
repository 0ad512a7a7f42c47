"""Tests of `spark_jobs.changed_columns`."""
