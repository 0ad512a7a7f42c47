"""Tests of `orchestration.generations`."""
