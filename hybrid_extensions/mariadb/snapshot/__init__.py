"""Snapshots of MariaDB and MySQL tables: checks, locks, division into chunks.

Belongs here: which servers and tables are refused, how a snapshot and its place in the log are made
to agree, where a table is cut into key ranges, and values as Debezium writes them.
"""
