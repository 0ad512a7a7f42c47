"""Tests of `hybrid_extensions.generations`."""
