"""Tests of `hybrid_extensions.alerts`."""
