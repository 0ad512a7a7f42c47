"""Delta tables without Spark: log, versions and owner.

Belongs here: which commits are the pipeline's own and their positions, which files hold history,
and which tables can be written without Spark.
"""
