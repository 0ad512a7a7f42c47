"""The Delta table from outside Spark: its log, versions, owner and ranges."""
