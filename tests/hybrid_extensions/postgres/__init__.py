"""Tests of `hybrid_extensions.postgres`."""
