"""Tests of `hybrid_extensions.reference`."""
