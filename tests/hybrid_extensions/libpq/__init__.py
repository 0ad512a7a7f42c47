"""Tests of `hybrid_extensions.libpq`."""
