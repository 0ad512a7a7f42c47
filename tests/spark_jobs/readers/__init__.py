"""Tests of `spark_jobs.readers`."""
