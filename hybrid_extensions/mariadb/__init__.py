"""MariaDB and MySQL: snapshots of tables, positions in the binary log, altered tables.

Belongs here: whatever speaks these databases' SQL, or their connectors' words. Does not belong
here: what all kinds of databases share, such as files and the manifest of a snapshot
(`hybrid_extensions.cdc`).
"""

from sources.extensions import Extension

EXTENSION = Extension("mariadb", databases="hybrid_extensions.mariadb.kind:KINDS")
