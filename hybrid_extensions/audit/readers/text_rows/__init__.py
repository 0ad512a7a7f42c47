"""Rows of text files and JSON values for the audit, parsed without the runs' parser.

Belongs here: how lines of JSON and CSV are split and parsed, which of them are bad, and what one
line's values become. Does not belong here: what a single text counts as in its column's type
(`hybrid_extensions.audit.readers.values`).
"""
