"""Tests of `sources.kafka`."""
