"""Tests of `hybrid_extensions.delta_history`."""
