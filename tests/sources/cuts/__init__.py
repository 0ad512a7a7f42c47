"""Tests of `sources.cuts`."""
