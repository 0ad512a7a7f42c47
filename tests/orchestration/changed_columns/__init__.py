"""Tests of `orchestration.changed_columns`."""
