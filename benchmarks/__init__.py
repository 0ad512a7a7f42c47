"""Measured against plain Spark, in turn, in the same session."""
