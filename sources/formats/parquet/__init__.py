"""Parquet files: footers, ranges of event times, rows, and which files a Delta table can have."""
