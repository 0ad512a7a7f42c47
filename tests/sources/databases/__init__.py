"""Tests of `sources.databases`."""
