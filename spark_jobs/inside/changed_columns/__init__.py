"""Columns that changed: their values for rows that a generation has already."""
