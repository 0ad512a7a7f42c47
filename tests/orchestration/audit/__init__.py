"""Tests of `orchestration.audit`."""
