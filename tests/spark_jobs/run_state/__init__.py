"""Tests of `spark_jobs.run_state`."""
