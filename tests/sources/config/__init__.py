"""Tests of `sources.config`."""
