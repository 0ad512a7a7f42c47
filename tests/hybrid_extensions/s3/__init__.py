"""Tests of `hybrid_extensions.s3`."""
