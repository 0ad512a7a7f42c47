"""Consistent cuts: which versions of a database's tables are the database as of one commit.

Belongs here: the documents of a barrier, by which drivers and the publisher of cuts agree on a
position; the Delta table of the cuts, and its readers. Does not belong here: merging (spark_jobs)
and when a cut is published (orchestration).
"""
