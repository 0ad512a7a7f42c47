"""PostgreSQL: snapshots of tables, positions in the log, replication slots, altered tables.

Belongs here: whatever speaks PostgreSQL's SQL: which tables can be captured, where one is cut into
key ranges, and how far a slot lags. Does not belong here: what all kinds of databases share, such
as files and the manifest of a snapshot (`hybrid_extensions.cdc`).
"""

from sources.extensions import Extension

EXTENSION = Extension("postgres", databases="hybrid_extensions.postgres.kind:KINDS")
