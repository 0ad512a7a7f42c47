"""SQL on the columns of one row, and names in SQL.

Belongs here: which expressions `select` and `rules` may have, what follows from one that only Spark
evaluates, and how names and texts are quoted.
"""
