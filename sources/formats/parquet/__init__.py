"""Parquet files: footers, ranges of event times, rows, and which files a Delta table can have.

Belongs here: what a footer contains of rows and event times, when the column has to be read, and
which columns have no value.
"""
