"""Tests of `hybrid_extensions.class_archive`."""
