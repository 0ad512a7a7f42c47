"""Tests of `hybrid_extensions.cuts`."""
