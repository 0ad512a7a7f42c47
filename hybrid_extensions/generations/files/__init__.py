"""Files of the serving table that generations, ranges and upkeep replace or remove.

Belongs here: which files of a table hold history, which can be carried from one table to another,
and which no generation lists any more; the one commit that replaces all rows, and which tables must
not be replaced (append-only, constraints, clustering).
"""
