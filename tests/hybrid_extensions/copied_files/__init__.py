"""Tests of `hybrid_extensions.copied_files`."""
