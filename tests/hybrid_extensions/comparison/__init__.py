"""Tests of `hybrid_extensions.comparison`."""
