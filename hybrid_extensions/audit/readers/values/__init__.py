"""Parsing of values in texts, for the audit.

Belongs here: what a text in JSON or CSV counts as: a time, a value that fits its type, a long value
that a change lacks; and which rows a tombstone deletes.
"""
