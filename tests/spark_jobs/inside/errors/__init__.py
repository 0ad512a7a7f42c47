"""Tests of `spark_jobs.inside.errors`."""
