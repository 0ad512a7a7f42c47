"""Tests of `hybrid_extensions.ordered_changes`."""
