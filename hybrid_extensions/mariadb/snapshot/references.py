"""Foreign keys that change rows without entries in the log (CASCADE, SET NULL) are refused."""

from __future__ import annotations

from collections.abc import Mapping

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.server import ask
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

NATIVE = "innodb_native_foreign_keys"
"""Variable of MySQL 9.6 and later: OFF if foreign keys change rows above the storage engine."""
_REFERENTIAL = "('CASCADE', 'SET NULL', 'SET DEFAULT')"


def check_references(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str]
) -> None:
    """Refuse a table whose foreign keys change rows without entries in the binary log.

    MariaDB, and MySQL up to 9.5, change them in the storage engine, which does not write this log.
    So does MySQL 9.6 unless :data:`NATIVE` is ``OFF``: then it logs these changes, and all tables
    pass.

    Args:
        connection: Open connection to the database.
        table: The table.
        variables: The server's variables, with :data:`NATIVE` if it has that.

    Raises:
        InputError: Names the foreign key, and what to do.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if variables.get(NATIVE) == "OFF":
        return
    found = ask(
        connection,
        "SELECT constraint_name, referenced_table_name FROM "
        "information_schema.referential_constraints WHERE constraint_schema = BINARY %s "
        f"AND table_name = BINARY %s AND (delete_rule IN {_REFERENTIAL} "
        f"OR update_rule IN {_REFERENTIAL})",
        *table.parts,
    )
    if not found:
        return
    name, other = found[0]
    message = (
        f"Foreign key `{name}` of table `{table.name}` changes its rows when rows of `{other}` "
        "change (CASCADE or SET NULL), and the binary log does not contain such changes."
    )
    setting = f"Set `{NATIVE}=OFF` in the server's configuration and restart it, or replace"
    hint = (
        f"{setting if NATIVE in variables else 'Replace'} the foreign key by one with RESTRICT, "
        f"and change the rows of `{table.name}` by statements or by a trigger on `{other}`, which "
        "are logged; then take the snapshot: `hybrid snapshot P`."
    )
    raise InputError(message, hint, source=table.source, table=table.name, value=str(name))
