"""Tests of `sources`."""
