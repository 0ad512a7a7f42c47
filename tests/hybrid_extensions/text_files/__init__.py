"""Tests of `hybrid_extensions.text_files`."""
