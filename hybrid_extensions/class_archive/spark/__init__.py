"""Spark's part of the class archive: the job whose classes are archived.

Belongs here: the queries whose classes are archived.
"""
