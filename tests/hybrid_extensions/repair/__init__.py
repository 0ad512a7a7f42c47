"""Tests of `hybrid_extensions.repair`."""
