"""Ranges of offsets: where they end, cut into batches, and read by tasks."""
