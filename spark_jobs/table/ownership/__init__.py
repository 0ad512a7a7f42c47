"""Ownership of a target: its binding to a generation's state, and checks of it.

Belongs here: owner, epoch and transactions of the table beside those of the state. Does not belong
here: the rows that are written.
"""
