"""Appending of files that Spark does not write: copies, and files written by tasks.

Belongs here: how such a file comes into the table's folder and into one commit. Does not belong
here: which micro-batches consist of such files (`query`).
"""
