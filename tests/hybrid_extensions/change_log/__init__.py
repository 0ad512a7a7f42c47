"""Tests of `hybrid_extensions.change_log`."""
