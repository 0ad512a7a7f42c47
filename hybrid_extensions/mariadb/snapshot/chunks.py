"""Chunks of a MariaDB or MySQL table: its key is walked over; some types of keys make one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division
from hybrid_extensions.mariadb.server import ask
from hybrid_extensions.mariadb.snapshot.columns import Column
from hybrid_extensions.mariadb.snapshot.debezium_texts import quoted
from sources.common.optional import needs_extra

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.converters import escape_string
    from pymysql.cursors import Cursor

_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"}
_TEXTS = {"char", "varchar", "date", "datetime", "timestamp"}
_BYTES = {"binary", "varbinary"}


def divide(
    connection: Connection[Cursor], table: CapturedTable, key: Column, known: Sequence[str] = ()
) -> Division:
    """Return a division of a table into chunks of ``snapshot.chunk_rows`` rows.

    The database walks over its primary key once; only the first key of each chunk is sent. A table
    whose key has another type than numbers, texts, times and bytes is one chunk.

    Args:
        connection: Connection of :func:`connect_raw`, in the transaction of a snapshot.
        table: The table.
        key: First column of its primary key.
        known: First keys of chunks, which the result begins with; it walks on after the last one.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    if key.kind not in _NUMBERS | _TEXTS | _BYTES:
        return Division(None, [])
    kind = "number" if key.kind in _NUMBERS else "bytes" if key.kind in _BYTES else "text"
    name, place = quoted(key.name), ".".join(map(quoted, table.parts))
    shown = f"HEX({name})" if kind == "bytes" else name
    bounds = list(known)
    while True:
        after = f"WHERE {name} > {_literal(bounds[-1], kind)} " if bounds else ""
        # Several rows may have one value of the first column.
        skipped = table.options.chunk_rows - bool(bounds)
        found: list[Any] = ask(
            connection, f"SELECT {shown} FROM {place} {after}ORDER BY {name} LIMIT {skipped}, 1"
        )
        if not found:
            return Division((key.name, kind), bounds)
        value = found[0][0]
        bounds.append(value.decode() if isinstance(value, bytes) else str(value))


def where(division: Division, chunk: int) -> str:
    """Return the SQL condition of the rows of one chunk; ``TRUE`` if the table is one chunk.

    Args:
        division: Division of the table.
        chunk: Number of the chunk, from 0.
    """
    if division.key is None:
        return "TRUE"
    name, kind = division.key
    first, following = division.ends(chunk)
    parts = [
        f"{quoted(name)} {sign} {_literal(end, kind)}"
        for sign, end in ((">=", first), ("<", following))
        if end is not None
    ]
    return " AND ".join(parts) or "TRUE"


def _literal(value: str, kind: str) -> str:
    if kind == "number":
        return value
    return f"x'{value}'" if kind == "bytes" else f"'{escape_string(value)}'"
