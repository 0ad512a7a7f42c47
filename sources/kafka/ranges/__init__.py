"""Ranges of offsets: cut into batches, read by tasks, and their gaps."""
