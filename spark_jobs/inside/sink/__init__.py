"""Sink: how a micro-batch is written to the target table exactly once.

Belongs here: creating the table, appending, merging, copying files, adding columns. Does not
belong here: what the rows are (`query`), and what is known of the table without Spark
(`spark_jobs.table`).
"""
