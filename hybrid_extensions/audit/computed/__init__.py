"""Expected content of the target, computed by DuckDB from the raw input.

Belongs here: which rows of the input count: bounds of event times, rules, the last version of a
row, snapshot or change; the query for the rows that the table should have; and what becomes of
expressions that only Spark evaluates.
"""
