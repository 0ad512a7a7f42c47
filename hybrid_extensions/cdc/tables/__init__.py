"""Files with `tables`: the pipelines that one makes for the tables of a database.

Belongs here: which tables of a database get a pipeline, the names of it, and what becomes of tables
that are new, gone or refused; whether the step in Dagster fails if the database does not answer.
"""
