"""What comparisons and repairs of a captured table share: both tables, ranges of keys, rows.

Belongs here: which columns and rows of database and target are compared, in which ranges of keys,
and how long the result of each range is kept.
"""
