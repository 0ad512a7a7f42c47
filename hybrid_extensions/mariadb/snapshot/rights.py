"""Rights for statements that need a global privilege, and the GRANT for a user without them."""

from __future__ import annotations

from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.server import ask, text_of
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection, MySQLError
    from pymysql.constants import ER
    from pymysql.cursors import Cursor

_DENIED = {
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    # What MySQL answers to XA RECOVER.
    ER.XAER_RMERR,
}


class MissingRight(InputError):  # noqa: N818 - a verdict on the user, not on a table
    """Error: the user lacks a privilege, so that an answer stays unknown; says how to grant it."""


def ask_with_right(
    connection: Connection[Cursor], statement: str, table: CapturedTable, right: str
) -> list[Any]:
    """Return all rows of a statement that needs a global privilege.

    Args:
        connection: Open connection to the database.
        statement: SQL.
        table: The table, for messages.
        right: Name of the right, as this kind of server has it.

    Raises:
        MissingRight: The user lacks the right; says how to grant it.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    try:
        return ask(connection, statement)
    except MySQLError as error:
        if error.args[0] not in _DENIED:
            raise
        [(account,)] = ask(connection, "SELECT CURRENT_USER()")
        user, _, host = str(account).rpartition("@")
        message = f"The database refuses `{statement}` to user {account}: {text_of(error)}."
        hint = (
            f"Run `GRANT {right} ON *.* TO '{user}'@'{host}'` in the database, or name another "
            "user in `snapshot.dsn`; then take the snapshot: `hybrid snapshot P`."
        )
        raise MissingRight(message, hint, source=table.source, table=table.name) from None
