"""Tests of `hybrid_extensions.held_offsets`."""
