"""Tests of `hybrid_extensions.estimates`."""
