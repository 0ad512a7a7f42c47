"""Tests of `sources.files`."""
