"""Tests of `hybrid_extensions.upkeep`."""
