"""Whose a target is: what binds it to a generation's state, and what refuses all others.

Belongs here: owner, epoch and transactions of the table beside those of the state. Does not belong
here: the rows that are written.
"""
