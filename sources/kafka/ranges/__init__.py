"""Ranges of offsets: where they end, cut into batches, and read by tasks.

Belongs here: where a bounded topic ends, how its records are cut into micro-batches, how far one
partition is read ahead of another, and when a range counts as read.
"""
