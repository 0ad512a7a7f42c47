"""Merging of changes in the order of their sequence, in Spark.

Belongs here: which change of a row is the newest, what a delete leaves (a gap or a marked row), how
versions of a row get their time ranges, what TRUNCATE removes, which value stands for one that a
change lacks, and when a micro-batch is small enough for the driver.
"""
