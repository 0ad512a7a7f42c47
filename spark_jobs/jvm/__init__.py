"""JVM side: finding Java, fetching the jars, and a class archive for faster starts.

Belongs here: Maven coordinates and the folder that jars are kept in. Does not belong here: Spark
properties of a run (`launch`).
"""
