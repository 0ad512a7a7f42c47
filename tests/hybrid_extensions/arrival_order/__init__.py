"""Tests of `hybrid_extensions.arrival_order`."""
