"""Formats and bad records end to end."""
