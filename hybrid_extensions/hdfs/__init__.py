"""HDFS: files, and state documents; needs the extra ``hdfs``.

Belongs here: how files are listed and read without a JVM, how a document is written by condition,
and which errors of a cluster are transient.
"""

from sources.extensions import Extension

EXTENSION = Extension("hdfs", stores="hybrid_extensions.hdfs.store:STORES")
