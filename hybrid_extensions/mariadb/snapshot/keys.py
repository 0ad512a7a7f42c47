"""Keys of MariaDB and MySQL tables: primary, or unique and never null; ``sink.key`` has to fit."""

from __future__ import annotations

from hybrid_extensions.cdc.databases.captured_table import CapturedTable
from hybrid_extensions.mariadb.server import ask
from hybrid_extensions.mariadb.snapshot.debezium_texts import quoted
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_PRIMARY = "PRIMARY"
_AGAIN = "then take the snapshot: `hybrid snapshot P`."


def key_of(connection: Connection[Cursor], table: str) -> list[str]:
    """Return the columns by which Debezium identifies rows of a table; empty if there are none.

    They are those of the primary key; without one, of the first unique key, in the order of the
    table's definition, whose columns are never null.

    Args:
        connection: Open connection to the server.
        table: The table, ``database.table``.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    return next(iter(_keys(connection, table).values()), [])


def require_key(connection: Connection[Cursor], table: CapturedTable) -> list[str]:
    """Return the columns of a table's key; refuse one by which its rows can't be identified.

    Refused are tables without a primary key, or a unique one that is never null; and, if they are
    merged, tables whose unique key differs from ``sink.key``, or whose rows it does not identify.

    Returns:
        The columns in their order.

    Raises:
        InputError: Says which, and what to do.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    keys = _keys(connection, table.name)
    if not keys:
        message = (
            f"Table `{table.name}` has no primary key, and no unique key whose columns are never "
            "null: a change does not identify its row."
        )
        hint = f"Add a primary key to the table; {_AGAIN}"
        raise InputError(message, hint, source=table.source, table=table.name)
    name, key = next(iter(keys.items()))
    if name != _PRIMARY and table.sink.mode == "merge" and {*table.sink.key} != {*key}:
        message = (
            f"Table `{table.name}` has no primary key; Debezium identifies its rows by the unique "
            f"key `{name}`, and `sink.key` has other columns: {', '.join(table.sink.key)}."
        )
        hint = f"Declare `sink: {{key: [{', '.join(key)}]}}`, or add a primary key; {_AGAIN}"
        raise InputError(
            message, hint, source=table.source, table=table.name, field="sink.key", value=name
        )
    merged = {*table.sink.key}
    is_read = table.sink.mode == "merge" and merged <= {*table.columns}
    if is_read and not any({*each} <= merged for each in keys.values()):
        message = (
            f"`sink.key` ({', '.join(table.sink.key)}) does not identify a row of table "
            f"`{table.name}`: it has the columns neither of the primary key nor of a unique key "
            "that is never null. Rows that are equal in it, or null, would be merged into one."
        )
        hint = f"Name all columns of the primary key in `sink.key`; {_AGAIN}"
        raise InputError(message, hint, source=table.source, table=table.name, field="sink.key")
    return key


def _keys(connection: Connection[Cursor], table: str) -> dict[str, list[str]]:
    """Return columns of unique keys that are never null, by name, in the order of the definition.

    The primary key is the first of them.
    """
    schema, _, name = table.partition(".")
    found: dict[str, list[str]] = {}
    nullable = set()
    # In the order of the definition, unlike information_schema.
    rows = ask(connection, f"SHOW INDEX FROM {quoted(name)} FROM {quoted(schema)}")
    for _, is_repeated, index, _, column, _, _, _, _, may_be_null, *_ in rows:
        if is_repeated:
            continue
        found.setdefault(index, []).append(column)
        # An expression has no column.
        if may_be_null or column is None:
            nullable.add(index)
    return {index: columns for index, columns in found.items() if index not in nullable}
