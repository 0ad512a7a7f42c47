"""HDFS: files, and state documents; needs the extra ``hdfs``."""

from sources.extensions import Extension

EXTENSION = Extension("hdfs", stores="hybrid_extensions.hdfs.store:STORES")
