"""Iceberg tables as history: one snapshot, planned from its metadata.

Belongs here: which Iceberg tables can be read, their columns and types, what was renamed, which
rows are deleted, and which event times a file has.

Tables are planned by PyIceberg, which needs the extra ``lake``
(https://iceberg.apache.org/spec/, https://py.iceberg.apache.org/).
"""

from sources.extensions import Extension

EXTENSION = Extension("iceberg", lakes="hybrid_extensions.iceberg.lake:LAKES")
