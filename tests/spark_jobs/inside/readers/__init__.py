"""Tests of `spark_jobs.inside.readers`."""
