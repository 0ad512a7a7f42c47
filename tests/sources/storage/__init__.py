"""Tests of `sources.storage`."""
