"""The proof of a table: an independent computation over all input, compared with the target.

Belongs here: reading raw input with DuckDB and pyarrow, and comparing it with the table. Does not
belong here: any code of the data path, which would share its errors with the proof.
"""
