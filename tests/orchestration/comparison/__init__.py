"""Tests of `orchestration.comparison`."""
