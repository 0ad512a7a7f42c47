"""Formats of history's files, apart from Parquet, which Spark itself reads."""
