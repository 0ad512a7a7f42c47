"""Tests of `hybrid_extensions.shared_drivers`."""
