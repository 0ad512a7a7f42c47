"""Tests of `spark_jobs.target`."""
