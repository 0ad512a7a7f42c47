"""Copies of files of history in Spark: which are possible, and their commits.

Belongs here: whether a transform leaves every row as it is, so that a file may be copied; and how
copies become one commit.
"""
