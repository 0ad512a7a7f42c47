"""Merging rows and changes into the target by key: clauses, keys, order, deletes, small batches.

Belongs here: what one micro-batch of a merge does. Does not belong here: appending rows, and
replacing ranges of them (`ranges`).
"""
