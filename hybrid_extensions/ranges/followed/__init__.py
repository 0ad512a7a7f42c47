"""Ranges that were recomputed in a table which a pipeline follows.

Belongs here: which of its windows or rows were made of such a range, their recomputation from the
followed table as it was right after, and what makes its run read on. Does not belong here: how a
table's commits are found and read, which is `sources.files.tables` and `sources.planning.files`.
"""
