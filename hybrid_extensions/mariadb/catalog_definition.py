"""Definition of a MariaDB or MySQL table: another key, or types that lose values, alter it.

An ALTER TABLE that rewrites rows writes no changes of rows to the binary log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybrid_extensions.cdc.databases.altered_table import Names, NarrowedColumn
from hybrid_extensions.mariadb.column_types import FOUR_BYTES, keeps_values, plain_type
from hybrid_extensions.mariadb.server import ask
from hybrid_extensions.mariadb.snapshot.keys import key_of
from sources.common.optional import needs_extra
from sources.common.table_definition import BinlogColumn, BinlogDefinition

with needs_extra("mariadb", "A `snapshot` of MariaDB or MySQL"):
    from pymysql import Connection
    from pymysql.cursors import Cursor

_COLUMNS = (
    "SELECT column_name, column_type, character_set_name, is_nullable, "
    "extra REGEXP '(VIRTUAL|STORED|PERSISTENT) GENERATED' FROM information_schema.columns "
    "WHERE table_schema = BINARY %s AND table_name = BINARY %s ORDER BY ordinal_position"
)


def read_definition(connection: Connection[Cursor], table: str) -> BinlogDefinition | None:
    """Return a table's definition in the catalog, by asking the server.

    Args:
        connection: Open connection to the server.
        table: The table, ``database.table``.

    Returns:
        None if there is no such table, or its columns can't be read.

    Raises:
        pymysql.MySQLError: The server refuses, or the connection ended.
    """
    schema, _, name = table.partition(".")
    columns = {
        str(column): BinlogColumn(
            type=plain_type(str(kind)),
            charset=str(charset or ""),
            is_nullable=nullable == "YES",
            is_generated=bool(generated),
        )
        for column, kind, charset, nullable, generated in ask(connection, _COLUMNS, schema, name)
    }
    if not columns:
        return None
    return BinlogDefinition(key=key_of(connection, table), columns=columns)


def reported_definition(table: Mapping[str, Any]) -> BinlogDefinition:
    """Return a table's definition as a connector reports it in the topic of statements.

    Args:
        table: Field ``table`` of an entry of ``tableChanges`` in a record of that topic.

    Raises:
        KeyError: A column has no name or type.
    """
    columns = {}
    for column in table.get("columns") or []:
        parameters = [column.get("length"), column.get("scale")]
        listed = column.get("enumValues") or [each for each in parameters if each is not None]
        kind = str(column["typeExpression"]).lower()
        name, _, sign = kind.partition(" unsigned")
        written = f"({','.join(map(str, listed))})" if listed else ""
        unsigned = " unsigned" if "unsigned" in kind else ""
        columns[str(column["name"])] = BinlogColumn(
            type=plain_type(f"{name}{written}{unsigned}{sign}"),
            charset=str(column.get("charsetName") or ""),
            is_nullable=bool(column.get("optional")),
            is_generated=bool(column.get("generated")),
        )
    key = [str(name) for name in table.get("primaryKeyColumnNames") or []]
    return BinlogDefinition(key=key, columns=columns)


def find_alteration(
    before: BinlogDefinition, after: BinlogDefinition, names: Mapping[str, str]
) -> str | None:
    """Return an alteration of a table that no change reports, as a predicate: ``has another …``.

    Other columns than those of the primary key may have been added, dropped or renamed: the changes
    show these. A key with a renamed column is another one, even if ``names`` has both names: the
    records of a row have another key since then, and may be in another partition.

    Args:
        before: The table before.
        after: The table after.
        names: Names of the captured columns after, by their names before.

    Returns:
        None if there is none.
    """
    if sorted(before.key) != sorted(after.key):
        were = _listed(before.key)
        return f"has another primary key now: {_listed(after.key)} instead of {were}"
    for name, present in names.items():
        if name not in before.columns or present not in after.columns:
            continue
        old, new = before.columns[name], after.columns[present]
        if not keeps_values(old, new):
            return (
                f"has column `{present}` as {_described(new)} now, which was {_described(old)}: "
                "the rows that were there may have other values"
            )
    return None


def judge_definitions(
    before: BinlogDefinition, after: BinlogDefinition, names: Names, at_ms: int
) -> tuple[list[NarrowedColumn], str | None]:
    """Return how a table was altered: narrowed columns that are ignored, and another alteration.

    A column is narrowed if its type holds less than before and nothing else.

    Args:
        before: The table before.
        after: The table after.
        names: Names of its captured columns.
        at_ms: When that was done, or seen, in ms since 1970.

    Returns:
        The narrowed columns, none if the policy is not to ignore them; and what
        :func:`find_alteration` finds in all other columns.
    """
    old, new = before.columns, after.columns
    both = names.in_both(old, new)
    found = names.narrowed(
        both,
        lambda one, other: (
            keeps_values(new[other], old[one]) and not keeps_values(old[one], new[other])
        ),
    )
    narrowed = [
        NarrowedColumn(
            column=name,
            before=_described(old[both[name][0]]),
            after=_described(new[both[name][1]]),
            since_ms=at_ms,
        )
        for name in sorted(found)
    ]
    others = dict(each for name, each in both.items() if name not in found)
    return narrowed, find_alteration(before, after, others)


def _described(column: BinlogColumn) -> str:
    parts = [column.type]
    if column.charset and column.charset not in FOUR_BYTES:
        parts.append(f"of {column.charset}")
    if column.is_generated:
        parts.append("that is generated")
    return f"{' '.join(parts)}{'' if column.is_nullable else ' NOT NULL'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
