"""Tests of `hybrid_extensions.waiting_drivers`."""
