"""Snapshots of MariaDB and MySQL tables: checks, division into chunks, rows as Arrow batches.

Belongs here: whatever speaks these databases' SQL for a snapshot. Does not belong here: files and
the manifest of a snapshot, which all kinds of databases share.
"""
