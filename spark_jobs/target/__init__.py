"""The target Delta table: creating it, appending, copying files, adding columns.

Belongs here: every write to the target. Does not belong here: what the rows are (`query`).
"""
