"""Reading of files in planned order, from a plan stored as a Delta log.

Belongs here: how the plan becomes a log that Spark follows, which micro-batch limits stay as they
were, and what becomes of rows that break a rule or are out of bounds.
"""
