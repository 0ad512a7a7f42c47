"""Tests of `hybrid_extensions.compare`."""
