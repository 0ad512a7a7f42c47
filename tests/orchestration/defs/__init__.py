"""Tests of `orchestration.defs`."""
