"""Files of a range: which are read, damaged ones of other times, and rows that changed ranges.

Belongs here: what the files of history say about a range. Does not belong here: the rows that the
table has of it (`table`).
"""
