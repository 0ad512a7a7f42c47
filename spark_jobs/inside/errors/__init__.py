"""Errors of Spark, in the words of this project.

Belongs here: what an exception of PySpark, Py4J or the JVM means, and how an error that is raised
in a task or a callback reaches the driver with all its fields. Does not belong here: what is wrong
with a record or a file (`readers`).
"""
