"""Replacing the rows of a range of event times in one commit, also those of windows and of keys.

Belongs here: what a range replaces, and how. Does not belong here: which range it is, and its rows.
"""
