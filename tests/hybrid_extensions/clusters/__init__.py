"""Tests of `hybrid_extensions.clusters`."""
