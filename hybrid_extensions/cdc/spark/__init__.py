"""Later columns of a captured table in the target, and what transforms do to them, in Spark.

Belongs here: when the target gets a column that was added to the captured table, a wider type, or
nulls for a column that is gone; and whether a transform passes such values on.
"""
