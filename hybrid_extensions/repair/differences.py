"""Rows of the target that differ from the database, without those that may only be newer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from hybrid_extensions.comparison.duckdb_database import as_json, columns_of, count_rows
from hybrid_extensions.repair.asked_keys import ASKED
from hybrid_extensions.repair.compared_rows import DELETES, ENVELOPE, SOURCE, TARGET
from hybrid_extensions.repair.positions import is_impossible, is_newer
from hybrid_extensions.repair.repairable_table import RepairedTable
from orchestration.comparison.report import EXAMPLES
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import InputError

REPAIRS = "audit.repairs"
"""DuckDB table of the rows to repair: ``_kind``, and the columns of the target as they become."""
_CANDIDATES, _COPIES = "audit.candidates", "audit.copies"
_NEWER, _IMPOSSIBLE, _FOUND = "audit.newer", "audit.impossible", "audit.found"


class Differences(NamedTuple):
    """Rows of the target that differ from the database.

    Attributes:
        missing: Number of rows that the target lacks.
        different: Number of rows with other values, or that are there more than once.
        extra: Number of rows that the database does not have.
        newer: Number of further keys that differ and have a newer change; they are left as they
            are.
        impossible: Number of keys with a position behind the end of the database's log, which no
            change can have; they are left as they are.
        columns: By name of the column, how many of the ``different`` rows differ in it.
        keys: Up to ten keys of the rows to repair as text, each after ``missing``, ``different`` or
            ``extra``.
        impossible_keys: Up to ten of the ``impossible`` keys as text.
        partial: How many of the ``newer`` keys have a value that is older than their change, as the
            change left a long value out.
    """

    missing: int
    different: int
    extra: int
    newer: int
    impossible: int
    columns: dict[str, int]
    keys: list[str]
    impossible_keys: list[str]
    partial: int = 0

    @property
    def to_repair(self) -> int:
        """Number of rows to repair."""
        return self.missing + self.different + self.extra


class Asked(NamedTuple):
    """Rows that a repair is limited to.

    Attributes:
        where: SQL condition on the columns of the target; all by default.
        has_keys: Whether only keys of :data:`~hybrid_extensions.repair.asked_keys.ASKED` count.
    """

    where: str | None = None
    has_keys: bool = False


ALL = Asked()
"""All rows."""


def summed(parts: Sequence[Differences]) -> Differences:
    """Return the differences of several ranges of the key as those of all of them."""
    columns = Counter[str]()
    for each in parts:
        columns.update(each.columns)
    return Differences(
        missing=sum(each.missing for each in parts),
        different=sum(each.different for each in parts),
        extra=sum(each.extra for each in parts),
        newer=sum(each.newer for each in parts),
        impossible=sum(each.impossible for each in parts),
        columns=dict(columns),
        keys=[key for each in parts for key in each.keys][:EXAMPLES],
        impossible_keys=[key for each in parts for key in each.impossible_keys][:EXAMPLES],
        partial=sum(each.partial for each in parts),
    )


def find_differences(
    connection: duckdb.DuckDBPyConnection,
    table: RepairedTable,
    version: str,
    log_end: DatabaseSnapshot,
    asked: Asked = ALL,
    within: str = "true",
) -> Differences:
    """Find the rows to repair, and add them to :data:`REPAIRS` as they have to become.

    A key with a newer row or delete is left out: the database's snapshot may contain its change, or
    not. So is one with a position that no change can have.

    Args:
        connection: DuckDB, with both sides (:mod:`hybrid_extensions.repair.compared_rows`).
        table: The table.
        version: Log position of the rows that the repair writes.
        log_end: A snapshot that was taken after the target was read.
        asked: Only rows that are asked for on one side or both are compared.
        within: SQL condition of the range of keys that both sides have.

    Raises:
        InputError: The condition is not valid.
    """
    keys = column_list(table.key)
    for name, condition in (
        (_NEWER, is_newer(quoted(table.position), version)),
        (_IMPOSSIBLE, is_impossible(quoted(table.position), log_end)),
    ):
        connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT DISTINCT {keys} FROM ("
            f"SELECT {keys} FROM {TARGET} WHERE {condition} UNION ALL "
            f"SELECT {keys} FROM {DELETES} WHERE {condition} AND ({within}))"
        )
    copies = f"SELECT {keys} FROM {TARGET} GROUP BY ALL HAVING count(*) > 1"
    connection.execute(f"CREATE OR REPLACE TABLE {_COPIES} AS {copies}")
    try:
        connection.execute(f"CREATE OR REPLACE TABLE {_CANDIDATES} AS {_candidates(table, asked)}")
    except duckdb.Error as error:
        if (where := asked.where) is None:
            raise
        message = (
            f"`--where {where}` can't be evaluated on the table's rows, so nothing was repaired: "
            f"{error}"
        )
        hint = "Write it in DuckDB's SQL, with the names that the columns of the target have."
        raise InputError(message, hint, value=where) from None
    newer, impossible = (in_keys(name, table.key, "c") for name in (_NEWER, _IMPOSSIBLE))
    repairs = (
        f"SELECT _kind, {_as_they_become(connection, table, version)} "
        f"FROM {_CANDIDATES} c CROSS JOIN {ENVELOPE} e WHERE NOT ({newer} OR {impossible})"
    )
    connection.execute(f"CREATE OR REPLACE TABLE {_FOUND} AS {repairs}")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {REPAIRS} AS FROM {_FOUND} LIMIT 0")
    connection.execute(f"INSERT INTO {REPAIRS} FROM {_FOUND}")
    kinds = f"SELECT _kind, count(*) FROM {_FOUND} GROUP BY 1"
    counts = dict(connection.execute(kinds).fetchall())
    left_out = f"{_CANDIDATES} c WHERE {newer} AND NOT {impossible}"
    unchanged = table.context.pipeline.sink.unchanged
    is_partial = "false" if unchanged is None else f"c._t.{quoted(unchanged)} IS NOT NULL"
    return Differences(
        missing=counts.get("missing", 0),
        different=counts.get("different", 0),
        extra=counts.get("extra", 0),
        newer=count_rows(connection, left_out),
        impossible=count_rows(connection, _IMPOSSIBLE),
        columns=_by_column(connection, table, f"NOT ({newer} OR {impossible})"),
        keys=_examples(connection, _FOUND, table.key, "_kind || ' '"),
        impossible_keys=_examples(connection, _IMPOSSIBLE, table.key, "''"),
        partial=count_rows(connection, f"{left_out} AND {is_partial}"),
    )


def in_keys(keys: str, key: list[str], of: str) -> str:
    """Return an SQL condition that the key of a row is among those of a table; nulls are equal.

    Args:
        keys: SQL name of the table.
        key: Columns of the key.
        of: SQL alias of the row.
    """
    same = (f"k.{quoted(name)} IS NOT DISTINCT FROM {of}.{quoted(name)}" for name in key)
    return f"EXISTS (SELECT 1 FROM {keys} k WHERE {' AND '.join(same)})"


def _candidates(table: RepairedTable, wanted: Asked) -> str:
    """Return the query of keys that differ: kind, key, and the rows of both sides as structs."""
    key, present = table.key, table.context.pipeline.sink.present
    asked = "true" if wanted.where is None else f"coalesce(({wanted.where}), false)"
    if wanted.has_keys:
        asked += f" AND ({column_list(key)}) IN (SELECT ({column_list(key)}) FROM {ASKED})"
    values = [quoted(name) for name in table.columns if name not in key]
    differ = [f"s.{name} IS DISTINCT FROM t.{name}" for name in values]
    differ += ["NOT t._present", in_keys(_COPIES, key, "t")]
    same = (f"s.{quoted(name)} IS NOT DISTINCT FROM t.{quoted(name)}" for name in key)
    keys = [f"coalesce(s.{quoted(name)}, t.{quoted(name)})" for name in key]
    named = (f"{value} AS {quoted(name)}" for value, name in zip(keys, key, strict=True))
    return (
        "SELECT CASE WHEN t._there IS NULL THEN 'missing' WHEN s._there IS NULL THEN 'extra' "
        f"ELSE 'different' END AS _kind, {', '.join(named)}, s AS _s, t AS _t "
        f"FROM (SELECT *, true AS _there, {asked} AS _asked FROM {SOURCE}) s "
        f"FULL JOIN (SELECT *, true AS _there, {asked} AS _asked, ({present}) AS _present "
        f"FROM {TARGET}) t ON {' AND '.join(same)} "
        "WHERE (coalesce(s._asked, false) OR coalesce(t._asked, false)) AND CASE "
        "WHEN t._there IS NULL THEN true WHEN s._there IS NULL THEN t._present "
        f"ELSE {' OR '.join(differ)} END "
        # Of a row that is there more than once, one is enough.
        f"QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)}) = 1"
    )


def _as_they_become(
    connection: duckdb.DuckDBPyConnection, table: RepairedTable, version: str
) -> str:
    """Return the columns of the target, of candidates ``c`` and the envelope ``e``."""
    deleted = table.context.pipeline.sink.deleted
    made = []
    for name in columns_of(connection, TARGET):
        column = quoted(name)
        if name in table.key:
            value = f"c.{column}"
        elif name == table.position:
            value = f"'{version}'"
        elif name == deleted:
            value = "c._kind = 'extra'"
        elif name in table.parts:
            value = f"e.{column}"
        elif name in table.columns:
            # A row that is only marked as deleted keeps its values.
            value = f"CASE WHEN c._kind = 'extra' THEN c._t.{column} ELSE c._s.{column} END"
        else:
            # A column that the database has dropped.
            value = f"c._t.{column}"
        made.append(f"{value} AS {column}")
    return ", ".join(made)


def _by_column(
    connection: duckdb.DuckDBPyConnection, table: RepairedTable, condition: str
) -> dict[str, int]:
    names = [name for name in table.columns if name not in table.key]
    if not names:
        return {}
    counts = ", ".join(
        f"count_if(c._s.{quoted(name)} IS DISTINCT FROM c._t.{quoted(name)})" for name in names
    )
    query = f"SELECT {counts} FROM {_CANDIDATES} c WHERE _kind = 'different' AND {condition}"
    [row] = connection.execute(query).fetchall()
    return {name: count for name, count in zip(names, row, strict=True) if count}


def _examples(
    connection: duckdb.DuckDBPyConnection, rows: str, key: list[str], prefix: str
) -> list[str]:
    query = f"SELECT {prefix} || {as_json(key)} FROM {rows} ORDER BY ALL LIMIT {EXAMPLES}"
    return [text for (text,) in connection.execute(query).fetchall()]
