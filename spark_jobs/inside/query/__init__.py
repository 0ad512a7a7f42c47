"""The Structured Streaming query: sources in fixed places, seam filter, union, transform.

Belongs here: what the query reads and in which place, the seam filter, and how the places become
one query. Does not belong here: reading one kind of source (`readers`), writing to the target
(`sink`), or reading the checkpoint (`checkpoint`).
"""
