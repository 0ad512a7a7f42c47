"""Registration of MariaDB and MySQL as kinds of databases."""

from sources.config.database_kind import DatabaseKind

BINLOG = DatabaseKind(
    name="mariadb",
    title="MariaDB or MySQL",
    addresses=r"(mariadb|mysql)://",
    parts=("position", "committed_at"),
    has_slots=False,
    leaves_out=False,
    schema="database",
    password="MYSQL_PWD",
    access="hybrid_extensions.mariadb.access:BINLOG_ACCESS",
    starter="hybrid_extensions.mariadb.starter:STARTER",
    compared_rows="hybrid_extensions.mariadb.compared_rows",
)
"""One kind for both databases; which of them it is, the server's version says."""
KINDS = [BINLOG]
