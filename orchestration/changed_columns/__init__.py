"""Beginning a generation that computes only changed columns, and what that saves.

What a run of it does is in :mod:`spark_jobs.changed_columns`. Optional: without this package, each
generation computes all columns from the sources.
"""
