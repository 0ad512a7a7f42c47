"""Checks of a pipeline's table in Dagster: its health, and what jobs found.

Belongs here: when the table's check is red, and who reports it.
"""
