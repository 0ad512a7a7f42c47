"""Tests of `orchestration.cli`."""
