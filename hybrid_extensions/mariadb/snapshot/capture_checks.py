"""Checks of MariaDB or MySQL: binary log by row, full, uncompressed; no XA; engine; columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Misfit
from hybrid_extensions.mariadb.server import ask
from hybrid_extensions.mariadb.snapshot.columns import Column, require_type
from hybrid_extensions.mariadb.snapshot.debezium_texts import quoted
from hybrid_extensions.mariadb.snapshot.keys import require_key
from hybrid_extensions.mariadb.snapshot.references import NATIVE, check_references
from hybrid_extensions.mariadb.snapshot.replicas import LOGGING, check_replica
from hybrid_extensions.mariadb.snapshot.rights import ask_with_right
from sources.common.optional import needs_extra
from sources.common.schema import parse_type
from sources.errors import InputError

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_AGAIN = "then take the snapshot: `hybrid snapshot P`."
_VARIABLES = (
    *("version", "log_bin", "binlog_format", "binlog_row_image", "log_bin_compress"),
    "binlog_row_value_options",
    *(*LOGGING, NATIVE, "gtid_slave_pos", "gtid_binlog_pos", "gtid_domain_id", "server_id"),
)
# Value that a variable must have, and why. One that a server does not have is fine.
_NEEDED = {
    "log_bin": ("ON", "it writes no binary log, so no change can be followed"),
    "binlog_format": ("ROW", "changes are logged as statements, which contain no rows"),
    "binlog_row_image": ("FULL", "changes lack columns that they leave as they were"),
    "log_bin_compress": ("OFF", "Debezium skips compressed changes without an error"),
    "binlog_row_value_options": (
        "",
        "Debezium skips an update that changes a part of a JSON document, without an error",
    ),
}
_NO_ZEROS = ("NO_ZERO_IN_DATE", "NO_ZERO_DATE")


def server_variables(connection: Connection[Cursor]) -> dict[str, str]:
    """Return the server variables that affect its binary log, by name in lower case.

    Variables that the server does not have are left out.

    Args:
        connection: Open connection to the database.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    found = ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in found}


def is_mariadb(variables: Mapping[str, str]) -> bool:
    """Return whether a server is MariaDB rather than MySQL.

    Args:
        variables: Those of :func:`server_variables`.
    """
    return "mariadb" in variables["version"].lower()


def check_log(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str]
) -> None:
    """Refuse a server whose binary log does not contain every change of a table as rows.

    Args:
        connection: Open connection to the database.
        table: The table.
        variables: Those of :func:`server_variables`.

    Raises:
        InputError: Names the setting, or that there are prepared transactions, and what to do.
        MissingRight: The user lacks a privilege for the check.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    check_settings(connection, table, variables)
    require_none_prepared(connection, table)


def require_none_prepared(connection: Connection[Cursor], table: CapturedTable) -> None:
    """Refuse a database with prepared transactions: asked before a snapshot begins, and after it.

    Args:
        connection: Open connection to the database.
        table: The table, for messages.

    Raises:
        InputError: There are some.
        MissingRight: The user may not ask.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if ask_with_right(connection, "XA RECOVER", table, "XA_RECOVER_ADMIN"):
        message = (
            "The database has transactions that are prepared and not committed (XA): their changes "
            "are in the log, and no snapshot contains them."
        )
        hint = f"Commit them or roll them back (`XA RECOVER` lists them); {_AGAIN}"
        raise InputError(message, hint, source=table.source, table=table.name)


def check_settings(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str]
) -> None:
    """Refuse settings of a server by which its binary log lacks changes of a table.

    Asked before a snapshot, and again while its changes are followed.

    Args:
        connection: Open connection to the database.
        table: The table.
        variables: Those of :func:`server_variables`.

    Raises:
        InputError: Names the setting, its value, and what to set.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    for name, (needed, why) in _NEEDED.items():
        value = variables.get(name, needed)
        if value.upper() != needed:
            message = f"The database server has `{name}={value}`: {why}."
            hint = (
                f"Set `{name}={needed}` in the server's configuration, restart it, and create the "
                f"connector again; {_AGAIN}"
            )
            raise InputError(message, hint, source=table.source, table=table.name, value=name)
    check_replica(connection, table, variables, is_mariadb=is_mariadb(variables))
    schema, _ = table.parts
    status = log_status(variables["version"])
    right = "BINLOG MONITOR" if is_mariadb(variables) else "REPLICATION CLIENT"
    for _, _, included, excluded, *_ in ask_with_right(connection, status, table, right):
        left_out = schema in _names(excluded) or (included and schema not in _names(included))
        if left_out:
            message = f"The server's binary log leaves out database `{schema}`."
            hint = (
                "Correct `binlog_do_db` and `binlog_ignore_db` in the server's configuration and "
                f"restart the server; {_AGAIN}"
            )
            raise InputError(message, hint, source=table.source, table=table.name)


def check_table(
    connection: Connection[Cursor], table: CapturedTable, variables: Mapping[str, str]
) -> list[str]:
    """Refuse a missing table, one that no snapshot contains, or whose log lacks changes.

    Args:
        connection: Open connection to the database.
        table: The table.
        variables: Those of :func:`server_variables`.

    Returns:
        The columns of its key, in their order.

    Raises:
        InputError: Names the reason, and what to do.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    found = ask(
        connection,
        "SELECT t.table_type, t.engine, e.transactions FROM information_schema.tables t "
        "LEFT JOIN information_schema.engines e ON e.engine = t.engine "
        "WHERE t.table_schema = BINARY %s AND t.table_name = BINARY %s",
        *table.parts,
    )
    if not found:
        message = f"There is no table `{table.name}` in the database, or its columns can't be read."
        hint = (
            "Correct `table` of the topic (`database.table`), or the server in `snapshot.dsn`, or "
            "grant its user SELECT on the table."
        )
        raise InputError(message, hint, source=table.source, table=table.name, field="table")
    kind, engine, transactions = found[0]
    if kind != "BASE TABLE":
        why = "the binary log has no changes of its rows"
        hint = f"Name a plain table in `table` of the topic; {_AGAIN}"
        if kind == "SYSTEM VERSIONED":
            why = "Debezium can't read the columns that the database adds to it"
            hint = f"Name a plain table in `table` of the topic, or drop its versioning; {_AGAIN}"
        message = f"`{table.name}` is no plain table but `{kind}`: {why}."
        raise InputError(message, hint, source=table.source, table=table.name)
    if transactions != "YES":
        message = (
            f"Table `{table.name}` is of the engine {engine}, which has no transactions, so no "
            "snapshot."
        )
        hint = f"Run `ALTER TABLE {table.name} ENGINE = InnoDB`; {_AGAIN}"
        raise InputError(message, hint, source=table.source, table=table.name)
    check_references(connection, table, variables)
    return require_key(connection, table)


def read_columns(
    connection: Connection[Cursor], table: CapturedTable, key: Sequence[str]
) -> tuple[dict[str, Column], list[str]]:
    """Return a table's columns; refuse those that are not as declared, or can't be captured.

    Args:
        connection: Open connection to the database.
        table: The table.
        key: Columns of its key.

    Returns:
        The table's columns by name; and warnings, as sentences.

    Raises:
        InputError: Names the column, and what to do.
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    rows = ask(
        connection,
        "SELECT column_name, data_type, column_type, is_nullable, column_default, collation_name "
        "FROM information_schema.columns "
        "WHERE table_schema = BINARY %s AND table_name = BINARY %s ORDER BY ordinal_position",
        *table.parts,
    )
    columns = {str(row[0]): column_of(row) for row in rows}
    table.require_columns(list(columns))
    for name, declared in table.columns.items():
        try:
            require_type(columns[name], parse_type(declared))
        except Misfit as error:
            message = f"Table `{table.name}` does not fit the `schema` of the topic: {error}."
            hint = f"Do so; {_AGAIN}"
            raise InputError(
                message, hint, source=table.source, table=table.name, column=name
            ) from None
    selected = ", ".join(map(quoted, table.columns))
    ask(connection, f"SELECT {selected} FROM {'.'.join(map(quoted, table.parts))} LIMIT 0")
    warnings = table.warn_of_defaults(
        [each.name for each in columns.values() if each.has_default and each.is_nullable]
    )
    warnings += _warn_of_zeros(connection, table, columns)
    folded = [name for name in key if (columns[name].collation or "_bin")[-4:] != "_bin"]
    if folded:
        warnings.append(
            f"Key columns of table `{table.name}` have a collation ({', '.join(folded)}): texts "
            "such as 'a' and 'A' are one key to the database. The target has each key as it is "
            "written in the row, and follows a row whose key changes from 'a' to 'A'; but whoever "
            "looks for 'A' there, or joins on it, does not find 'a'."
        )
    return columns, warnings


def _warn_of_zeros(
    connection: Connection[Cursor], table: CapturedTable, columns: Mapping[str, Column]
) -> list[str]:
    """Return a warning if zero dates may come by changes, which are other dates to Debezium."""
    times = [
        name
        for name in table.columns
        if columns[name].kind == "timestamp"
        or (columns[name].kind in ("date", "datetime") and not columns[name].is_nullable)
    ]
    [(mode,)] = ask(connection, "SELECT @@global.sql_mode")
    lacking = [name for name in _NO_ZEROS if name not in str(mode).split(",")]
    if not (times and lacking):
        return []
    return [
        f"The server's sql_mode lacks {' and '.join(lacking)}, so that columns of table "
        f"`{table.name}` ({', '.join(times)}) may get zero dates such as 0000-00-00. Debezium "
        "reports 1970-01-01 for these, or null for a timestamp: set both modes, or let `hybrid "
        "compare P` look for such rows."
    ]


def column_of(row: Sequence[Any]) -> Column:
    """Return a column from its row in ``information_schema.columns``.

    Args:
        row: Its name, type without and with parameters, whether it may be null (``YES``), default
            and collation.
    """
    name, kind, full, is_nullable, default, collation = row
    return Column(
        name,
        kind.lower(),
        full.lower(),
        is_nullable == "YES",
        # MariaDB writes the default NULL as a text.
        default not in (None, "NULL"),
        collation,
    )


def _names(text: str | None) -> set[str]:
    return {name.strip() for name in (text or "").split(",") if name.strip()}


def log_status(version: str) -> str:
    """Return the statement for the end of the binary log, which MySQL 8.2 renamed.

    Args:
        version: Version of the server, such as ``8.0.36`` or ``10.11.6-MariaDB``.
    """
    if "mariadb" in version.lower():
        return "SHOW MASTER STATUS"
    major, minor = (int(part) for part in version.partition("-")[0].split(".")[:2])
    return "SHOW BINARY LOG STATUS" if (major, minor) >= (8, 2) else "SHOW MASTER STATUS"
