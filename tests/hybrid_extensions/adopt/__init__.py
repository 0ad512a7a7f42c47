"""Tests of `hybrid_extensions.adopt`."""
