"""The Java side: finding Java, fetching the JVM parts, and the class archive for faster starts.

Belongs here: Maven coordinates and the folder that jars are kept in. Does not belong here: Spark
properties of a run (`launch`).
"""
