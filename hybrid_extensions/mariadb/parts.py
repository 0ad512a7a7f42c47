"""MariaDB and MySQL among the kinds of databases."""

from sources.config.database_kind import BINLOG
from sources.databases.kinds import DatabaseParts

PARTS = [
    DatabaseParts(
        BINLOG,
        "MariaDB or MySQL",
        access="hybrid_extensions.mariadb.access:BINLOG_ACCESS",
        starter="hybrid_extensions.mariadb.starter:STARTER",
        compared_rows="hybrid_extensions.mariadb.compared_rows",
    )
]
