"""Settings of DuckDB for translated Spark SQL: time zone UTC, and no rewriting of expressions."""

SETTINGS = ("SET TimeZone = 'UTC'", "SET disabled_optimizers = 'expression_rewriter'")
"""Statements to execute before DuckDB evaluates a translation.

Rewritten, `7 = 7 - (-x)` is `x = 0`, which no longer fails where `-x` is out of range.
"""
