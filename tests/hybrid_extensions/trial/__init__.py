"""Tests of `hybrid_extensions.trial`."""
