"""Tests of `orchestration.progress`."""
