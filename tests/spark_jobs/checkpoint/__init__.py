"""Tests of `spark_jobs.checkpoint`."""
