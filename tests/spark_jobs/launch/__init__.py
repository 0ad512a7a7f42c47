"""Tests of `spark_jobs.launch`."""
