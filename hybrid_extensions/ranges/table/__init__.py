"""Replacement of the rows in a range of event times, in one commit; also of windows and keys.

Belongs here: what a range replaces, and how. Does not belong here: which range it is, and its rows.
"""
