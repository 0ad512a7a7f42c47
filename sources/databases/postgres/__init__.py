"""Snapshots of PostgreSQL tables: checks, division into chunks, rows as Arrow batches.

Belongs here: whatever speaks PostgreSQL's SQL for a snapshot. Does not belong here: files and the
manifest of a snapshot, which all kinds of databases share.
"""
