"""Changes of a captured table, as Debezium writes them: decoding, positions, later columns.

Belongs here: what a run does at each kind of change of a captured table's columns (stop, follow,
ignore), and under which name and type a column is read that was added, widened or renamed.
"""
