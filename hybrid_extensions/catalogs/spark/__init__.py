"""Names of a catalog in Spark: the target's entry, and the folder of a source's table.

Belongs here: how the target is entered in the catalog of Spark's session, and where the files of a
table lie that a source names.
"""
