"""Verdict on a table, and comparisons of tables by DuckDB, without Spark.

Belongs here: what is kept and shown of an audit, which an extension makes
(:mod:`~orchestration.audit.installed_audit`); the comparison of the candidate generation with the
serving one (:mod:`~orchestration.audit.compare_generations`), and of a captured table with its
database (:mod:`~orchestration.audit.database.compare_source`). Does not belong here: code that
plans, reads or writes data for a run, whose errors a comparison would repeat.
"""
