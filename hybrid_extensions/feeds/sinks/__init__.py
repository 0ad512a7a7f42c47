"""Implementations of second sinks, independent of each other.

Belongs here: of each kind of sink: what a delivery is that may be repeated, how an earlier follower
is kept out, whose rows or keys may be removed, and which servers and tables are refused.
"""
