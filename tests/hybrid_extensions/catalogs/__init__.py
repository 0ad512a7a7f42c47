"""Tests of `hybrid_extensions.catalogs`."""
