"""CSV files: the options of a dialect, the reader, whole records, and values of their columns.

Belongs here: where a record ends, which quotes are valid, and which values are parsed as text
first.
"""
