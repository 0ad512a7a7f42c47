"""The target Delta table: appending, merging, deleting, adding columns, replacing ranges.

Belongs here: every write to the target. Does not belong here: what the rows are (`query`).
"""
