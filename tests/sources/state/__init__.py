"""Tests of `sources.state`."""
