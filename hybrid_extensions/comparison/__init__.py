"""Tables read and compared by DuckDB: what audits, comparisons, feeds and training sets share.

Belongs here: rows of Delta tables in a database of DuckDB, which values count as equal (maps,
numbers, texts), and what differs between two tables, row by row. It adds nothing by itself. Does
not belong here: what the rows should be, which those decide that import this.
"""

from sources.extensions import Extension

EXTENSION = Extension("comparison")
