"""Delta tables as history: one version, planned from its log, or what commits append.

Belongs here: which Delta tables can be history, and the order in which their files are read.
"""

from sources.extensions import Extension

EXTENSION = Extension("delta_history", lakes="hybrid_extensions.delta_history.delta_table:LAKES")
