"""Parsing of values in texts, for the audit."""
