"""Tests of `spark_jobs.jvm`."""
