"""Comparison of a captured table with its database."""
