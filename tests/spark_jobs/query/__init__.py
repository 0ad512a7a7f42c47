"""Tests of `spark_jobs.query`."""
