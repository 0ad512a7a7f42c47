"""Delta tables without Spark: log, versions and owner."""
