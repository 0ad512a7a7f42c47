"""Tests of `orchestration.sample_run`."""
