"""Databases: the snapshot of a table, and the place in the log that its changes come from.

Belongs here: what is asked of any database, and the interface that each kind implements. Does not
belong here: the SQL of one kind, which is an extension of its own, such as `postgres`.
"""
