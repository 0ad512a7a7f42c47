"""The one Structured Streaming query: sources in fixed places, seam filter, union, transform.

Belongs here: how each source becomes a stream, and how the streams become one query. Does not
belong here: writing to the target (`target`), or reading the checkpoint (`checkpoint`).
"""
