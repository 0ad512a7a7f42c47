"""The table's rows by range of event time: their number, and their replacement in one commit.

Belongs here: how many rows a range has; what a range replaces, also in tables of windows and keys,
and how. Does not belong here: which range it is, and its rows.
"""
