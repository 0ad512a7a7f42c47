"""Tests of `orchestration.supervision`."""
