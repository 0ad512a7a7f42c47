"""Tests of `sources.formats`."""
