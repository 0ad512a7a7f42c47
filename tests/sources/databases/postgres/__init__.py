"""Tests of `sources.databases.postgres`."""
