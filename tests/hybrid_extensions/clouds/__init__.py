"""Tests of `hybrid_extensions.clouds`."""
