"""Tests of `hybrid_extensions.starter`."""
