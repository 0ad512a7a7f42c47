"""Tests of `sources.planning`."""
