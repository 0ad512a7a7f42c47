"""Tests of `orchestration.cuts`."""
