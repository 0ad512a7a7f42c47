"""HDFS: files, and state documents; needs the extra ``hdfs``.

Belongs here: how files are listed and read without a JVM, and how a document is written by
condition.
"""

from sources.extensions import Extension

EXTENSION = Extension("hdfs", stores="hybrid_extensions.hdfs.store:STORES")
