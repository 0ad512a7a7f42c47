"""Delta tables without Spark: log, versions, owner and ranges."""
