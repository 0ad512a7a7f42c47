"""Tests of `sources.common`."""
