"""Verdict on a table, and comparisons of tables by DuckDB, without Spark.

Belongs here: what is kept and shown of an audit, which an extension makes
(:mod:`~orchestration.comparison.installed_audit`); and reading and comparing tables row by row.
Does not belong here: code that plans, reads or writes data for a run, whose errors a comparison
would repeat.
"""
