"""The comparison of an audit: rows that must be in the target against rows that are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import duckdb

from orchestration.audit.report import AuditExample
from orchestration.audit.sides import FLOATING
from orchestration.audit.sql import columns_of, count_rows, listed, quoted
from sources.errors import InputError

# Sums of doubles depend on their order, and Spark and DuckDB add in different ones.
RELATIVE_TOLERANCE = 1e-9
# Rows of each kind that one key adds, from how often it is expected and found.
_ROWS_OF_KEY = {
    "missing": "greatest(_expected - _found, 0)",
    "duplicated": "CASE WHEN _expected > 0 THEN greatest(_found - _expected, 0) ELSE 0 END",
    "unexpected": "CASE WHEN _expected = 0 THEN _found ELSE 0 END",
}


@dataclass(frozen=True)
class Comparison:
    """The counts and examples of :class:`orchestration.audit.run.AuditReport`."""

    expected: int
    found: int
    counts: dict[str, int]
    examples: dict[str, list[AuditExample]]


def compare(connection: duckdb.DuckDBPyConnection, key: list[str], limit: int) -> Comparison:
    """Compare ``audit.expected`` with ``audit.found``; a null is a value like any other.

    Args:
        connection: Holds both tables, with the same columns.
        key: Columns that identify a row.
        limit: How many examples of each kind.

    Raises:
        InputError: A column's types can't be compared.
    """
    try:
        counts, examples = _tally(connection, key, limit)
        counts["different"], examples["different"] = _differences(connection, key, limit)
    except duckdb.Error as error:
        message = f"The target can't be compared with what it must hold: {error}"
        raise InputError(message, "Cast the column in `audit.sql`.") from None
    sizes = [count_rows(connection, f"audit.{table}") for table in ("expected", "found")]
    return Comparison(sizes[0], sizes[1], counts, examples)


def _tally(
    connection: duckdb.DuckDBPyConnection, key: list[str], limit: int
) -> tuple[dict[str, int], dict[str, list[AuditExample]]]:
    """Count how often each key is expected and found; GROUP BY takes null for a value."""
    names = listed(key)
    connection.execute(
        f"CREATE TABLE audit.tally AS SELECT {names}, CAST(sum(_e) AS BIGINT) AS _expected, "
        f"CAST(sum(_f) AS BIGINT) AS _found FROM (SELECT {names}, 1 AS _e, 0 AS _f FROM "
        f"audit.expected UNION ALL SELECT {names}, 0, 1 FROM audit.found) GROUP BY {names}"
    )
    counts = {}
    examples = {}
    for kind, rows in _ROWS_OF_KEY.items():
        query = f"SELECT coalesce(sum({rows}), 0) FROM audit.tally"
        counts[kind] = int(connection.execute(query).fetchall()[0][0])
        query = (
            f"SELECT {names}, _expected, _found FROM audit.tally WHERE {rows} > 0 "
            f"ORDER BY {names} LIMIT {limit}"
        )
        examples[kind] = [
            AuditExample(_key(key, row), None, row[-2], row[-1])
            for row in connection.execute(query).fetchall()
        ]
    return counts, examples


def _differences(
    connection: duckdb.DuckDBPyConnection, key: list[str], limit: int
) -> tuple[int, list[AuditExample]]:
    """Compare the other columns of rows whose key is found as often as it is expected."""
    expected, found = (columns_of(connection, f"audit.{side}") for side in ("expected", "found"))
    kinds = {name: {expected[name], found[name]} for name in expected}
    others = [name for name in kinds if name not in key]
    if not others:
        return 0, []
    joined = [_same("e", "f", key)]
    sides = ["audit.expected", "audit.found"]
    query = "SELECT count(*) FROM audit.tally WHERE _expected = _found AND _expected > 1"
    if connection.execute(query).fetchall()[0][0]:
        # Rows of one key pair up in the order of their values, the inexact ones last.
        order = listed(sorted(others, key=lambda name: not FLOATING.isdisjoint(kinds[name])))
        number = f"row_number() OVER (PARTITION BY {listed(key)} ORDER BY {order})"
        sides = [f"(SELECT *, {number} AS _nth FROM {side})" for side in sides]
        joined.append("e._nth = f._nth")
    selected = [f"e.{quoted(name)} AS k{at}" for at, name in enumerate(key)]
    for at, name in enumerate(others):
        left, right = f"e.{quoted(name)}", f"f.{quoted(name)}"
        unequal = _unequal(left, right, kinds[name])
        selected += [f"{unequal} AS d{at}", f"{left} AS e{at}", f"{right} AS f{at}"]
    connection.execute(
        f"CREATE TABLE audit.different AS SELECT * FROM (SELECT {', '.join(selected)} "
        f"FROM {sides[0]} e JOIN {sides[1]} f ON {' AND '.join(joined)} SEMI JOIN "
        f"(SELECT * FROM audit.tally WHERE _expected = _found) t ON {_same('e', 't', key)}) "
        f"WHERE {' OR '.join(f'd{at}' for at in range(len(others)))}"
    )
    order = ", ".join(f"k{at}" for at in range(len(key)))
    query = f"SELECT * FROM audit.different ORDER BY {order} LIMIT {limit}"
    examples = [
        AuditExample(_key(key, row), name, _plain(triple[1]), _plain(triple[2]))
        for row in connection.execute(query).fetchall()
        for at, name in enumerate(others)
        if (triple := row[len(key) + 3 * at : len(key) + 3 * at + 3])[0]
    ]
    return count_rows(connection, "audit.different"), examples[:limit]


def _same(left: str, right: str, key: list[str]) -> str:
    names = map(quoted, key)
    return " AND ".join(f"{left}.{name} IS NOT DISTINCT FROM {right}.{name}" for name in names)


def _unequal(left: str, right: str, kinds: set[str]) -> str:
    if FLOATING.isdisjoint(kinds):
        return f"{left} IS DISTINCT FROM {right}"
    a, b = f"CAST({left} AS DOUBLE)", f"CAST({right} AS DOUBLE)"
    close = f"abs({a} - {b}) <= {RELATIVE_TOLERANCE} * greatest(abs({a}), abs({b}))"
    near = f"coalesce(isfinite({a}) AND isfinite({b}) AND {close}, false)"
    return f"({a} IS DISTINCT FROM {b} AND NOT {near})"


def _key(key: list[str], row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in zip(key, row, strict=False)}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)
