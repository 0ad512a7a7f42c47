"""Kinds of databases: which value gives access to a declared one."""

from __future__ import annotations

from sources.common.optional import needs_extra
from sources.config.database_kind import BINLOG, POSTGRES, kind_of
from sources.databases.access import Access


def access_to(dsn: str) -> Access:
    """Return the access to the kind of database that a connection string leads to.

    Args:
        dsn: How the database is reached, as ``snapshot.dsn``.

    Raises:
        InputError: The extra of this kind of database is not installed.
    """
    # Each kind needs an extra of its own, so that only one of them may be there.
    if kind_of(dsn) is BINLOG:
        with needs_extra(BINLOG.name, "A `snapshot` of MariaDB or MySQL"):
            from sources.databases.mariadb.access import BINLOG_ACCESS  # noqa: PLC0415
        return BINLOG_ACCESS
    with needs_extra(POSTGRES.name, "A `snapshot` of PostgreSQL"):
        from sources.databases.postgres.access import POSTGRES_ACCESS  # noqa: PLC0415
    return POSTGRES_ACCESS
