"""Code inside Spark: drivers, queries, readers and the sink; only this package imports PySpark.

Belongs here: all and only what imports PySpark.
"""
