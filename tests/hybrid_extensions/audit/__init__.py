"""Tests of `hybrid_extensions.audit`."""
