"""Verdict on a table, and comparisons of tables by DuckDB, without Spark.

Belongs here: what is kept and shown of an audit, which an extension makes
(:mod:`~orchestration.comparison.installed_audit`); reading and comparing tables row by row; and the
comparison of the candidate generation with the serving one
(:mod:`~orchestration.comparison.compare_generations`). Does not belong here: code that plans, reads
or writes data for a run, whose errors a comparison would repeat.
"""
