"""Tests of `sources.decoding`."""
