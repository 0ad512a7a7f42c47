"""Tests of `hybrid_extensions.managed`."""
