"""Generations that compute only changed columns: what the state folder and processes say of them.

Such a generation copies the rows of the serving one and computes what its transform returns
otherwise (docs/generations.md). What a run does is in :mod:`spark_jobs.changed_columns`.
"""
