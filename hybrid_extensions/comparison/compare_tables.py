"""Which rows count as missing, duplicated, different or unexpected, by key; tolerance, rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import duckdb

from hybrid_extensions.comparison.duckdb_database import (
    FLOATING,
    INTEGERS,
    columns_of,
    count_rows,
    error_text,
)
from hybrid_extensions.comparison.maps import sort_maps
from orchestration.comparison.report import AuditExample
from sources.common.sql.sql_names import column_list, quoted
from sources.errors import InputError

# SQL for the number of rows of each kind of difference, from how often a key is expected and found.
_ROWS_BY_KIND = {
    "missing": "greatest(_expected - _found, 0)",
    "duplicated": "CASE WHEN _expected > 0 THEN greatest(_found - _expected, 0) ELSE 0 END",
    "unexpected": "CASE WHEN _expected = 0 THEN _found ELSE 0 END",
}

ROUNDING = 1e-9
"""Part of a value by which sums of the same numbers may differ, as Spark and DuckDB add them in
different orders. A difference up to this is said to look like that; it passes only if declared."""


@dataclass(frozen=True)
class Comparison:
    """Numbers of rows and examples of differences between two tables.

    Attributes:
        expected: Rows of ``audit.expected``.
        found: Rows of ``audit.found``.
        counts: Rows by kind of difference: ``missing``, ``duplicated``, ``unexpected`` and
            ``different``, as in :class:`orchestration.comparison.report.AuditReport`.
        examples: Examples by kind of difference, ordered by key.
        rounded: By floating-point column without a declared tolerance: rows of which it differs by
            no more than rounding does, :data:`ROUNDING`.
        by_column: Of ``different``, the rows that differ in a column, by its name, the most first.
    """

    expected: int
    found: int
    counts: dict[str, int]
    examples: dict[str, list[AuditExample]]
    rounded: dict[str, int]
    by_column: dict[str, int]


def compare(
    connection: duckdb.DuckDBPyConnection,
    key: list[str],
    limit: int,
    tolerance: Mapping[str, float] | None = None,
    *,
    without: str | None = None,
) -> Comparison:
    """Compare the rows of the tables ``audit.expected`` and ``audit.found`` by key.

    A null equals a null, and maps have no order. Values are compared exactly, except for columns
    with a tolerance.

    Args:
        connection: The audit's database, with both tables, which have the same columns.
        key: Columns that identify a row.
        limit: Largest number of examples of each kind of difference.
        tolerance: By floating-point column: by which part of the larger value two values may
            differ; None for no tolerance.
        without: Table of keys whose rows are not compared in the columns outside the key; None to
            compare all.

    Raises:
        InputError: DuckDB fails to compare the tables, such as for two types of a column that it
            can't compare, or for lack of memory.
    """
    try:
        for side in ("expected", "found"):
            sort_maps(connection, f"audit.{side}")
        counts, examples = _count_by_key(connection, key, limit)
        counts["different"], examples["different"], rounded, by_column = _different_rows(
            connection, key, limit, tolerance or {}, without
        )
    except duckdb.Error as error:
        message = f"The rows of the two tables can't be compared: {error_text(error)}"
        hint = (
            "Nothing was changed. If the types of a column differ in an audit, cast it in "
            "`audit.sql` to its type in the target; without `audit.sql`, declare the same type for "
            "it in all sources. If they differ between two generations, let the transform of the "
            "newer one return the type of the older one."
        )
        if isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException):
            hint = "Free memory, and space for temporary files (`TMPDIR`), then compare again."
        raise InputError(message, hint, field="audit.sql") from None
    sizes = [count_rows(connection, f"audit.{table}") for table in ("expected", "found")]
    return Comparison(sizes[0], sizes[1], counts, examples, rounded, by_column)


def _count_by_key(
    connection: duckdb.DuckDBPyConnection, key: list[str], limit: int
) -> tuple[dict[str, int], dict[str, list[AuditExample]]]:
    """Count missing, duplicated and unexpected rows, from how often each key occurs on each side.

    Creates the table ``audit.tally``: one row for each key, with ``_expected`` and ``_found``.

    Returns:
        The number of rows and up to ``limit`` examples, both by kind of difference.
    """
    names = column_list(key)
    connection.execute(
        f"CREATE TABLE audit.tally AS SELECT {names}, CAST(sum(_e) AS BIGINT) AS _expected, "
        f"CAST(sum(_f) AS BIGINT) AS _found FROM (SELECT {names}, 1 AS _e, 0 AS _f FROM "
        f"audit.expected UNION ALL SELECT {names}, 0, 1 FROM audit.found) GROUP BY {names}"
    )
    counts = {}
    examples = {}
    for kind, rows in _ROWS_BY_KIND.items():
        query = f"SELECT coalesce(sum({rows}), 0) FROM audit.tally"
        counts[kind] = int(connection.execute(query).fetchall()[0][0])
        query = (
            f"SELECT {names}, _expected, _found FROM audit.tally WHERE {rows} > 0 "
            f"ORDER BY {names} LIMIT {limit}"
        )
        examples[kind] = [
            AuditExample(key_of(key, row), None, row[-2], row[-1])
            for row in connection.execute(query).fetchall()
        ]
    return counts, examples


def _different_rows(
    connection: duckdb.DuckDBPyConnection,
    key: list[str],
    limit: int,
    tolerance: Mapping[str, float],
    without: str | None,
) -> tuple[int, list[AuditExample], dict[str, int], dict[str, int]]:
    """Compare the columns outside the key, for keys that occur as often as expected.

    Needs ``audit.tally``, and creates ``audit.different``. Rows that share a key are paired in the
    order of their values.

    Returns:
        The number of rows that differ, up to ``limit`` examples, one for each column,
        :attr:`Comparison.rounded`, and :attr:`Comparison.by_column`.
    """
    expected, found = (columns_of(connection, f"audit.{side}") for side in ("expected", "found"))
    kinds = {name: {expected[name], found[name]} for name in expected}
    others = [name for name in kinds if name not in key]
    if not others:
        return 0, [], {}, {}
    joined = [_keys_equal("e", "f", key)]
    sides = ["audit.expected", "audit.found"]
    query = "SELECT count(*) FROM audit.tally WHERE _expected = _found AND _expected > 1"
    if connection.execute(query).fetchall()[0][0]:
        # Floating-point columns come last in the order, because they may differ by rounding.
        order = column_list(sorted(others, key=lambda name: not FLOATING.isdisjoint(kinds[name])))
        pair = f"row_number() OVER (PARTITION BY {column_list(key)} ORDER BY {order})"
        sides = [f"(SELECT *, {pair} AS _nth FROM {side})" for side in sides]
        joined.append("e._nth = f._nth")
    selected = [f"e.{quoted(name)} AS k{number}" for number, name in enumerate(key)]
    for number, name in enumerate(others):
        left, right = f"e.{quoted(name)}", f"f.{quoted(name)}"
        differs = _values_differ(left, right, kinds[name], tolerance.get(name, 0.0))
        selected += [f"{differs} AS d{number}", f"{left} AS e{number}", f"{right} AS f{number}"]
    excluded = f"ANTI JOIN {without} a ON {_keys_equal('e', 'a', key)}" if without else ""
    connection.execute(
        f"CREATE TABLE audit.different AS SELECT * FROM (SELECT {', '.join(selected)} "
        f"FROM {sides[0]} e JOIN {sides[1]} f ON {' AND '.join(joined)} SEMI JOIN "
        f"(SELECT * FROM audit.tally WHERE _expected = _found) t ON {_keys_equal('e', 't', key)} "
        f"{excluded}) "
        f"WHERE {' OR '.join(f'd{number}' for number in range(len(others)))}"
    )
    order = ", ".join(f"k{number}" for number in range(len(key)))
    query = f"SELECT * FROM audit.different ORDER BY {order} LIMIT {limit}"
    examples = [
        AuditExample(key_of(key, row), name, json_value(triple[1]), json_value(triple[2]))
        for row in connection.execute(query).fetchall()
        for number, name in enumerate(others)
        if (triple := row[len(key) + 3 * number : len(key) + 3 * number + 3])[0]
    ]
    floating = [n for n in others if kinds[n] <= FLOATING and n not in tolerance]
    rounded = {name: _count_rounded(connection, others.index(name)) for name in floating}
    return (
        count_rows(connection, "audit.different"),
        examples[:limit],
        {name: count for name, count in rounded.items() if count},
        _count_by_column(connection, others),
    )


def _count_by_column(connection: duckdb.DuckDBPyConnection, others: list[str]) -> dict[str, int]:
    """Return how many rows of ``audit.different`` differ in each column that differs at all."""
    counts = ", ".join(f"count(*) FILTER (d{number})" for number in range(len(others)))
    row = connection.execute(f"SELECT {counts} FROM audit.different").fetchall()[0]
    found = {name: count for name, count in zip(others, row, strict=True) if count}
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _count_rounded(connection: duckdb.DuckDBPyConnection, number: int) -> int:
    """Return how many rows of ``audit.different`` differ in a column by rounding only.

    Args:
        connection: The audit's database.
        number: Number of the column among those outside the key.
    """
    near = _is_near(f"e{number}", f"f{number}", ROUNDING)
    query = f"SELECT count(*) FROM audit.different WHERE d{number} AND {near}"
    return int(connection.execute(query).fetchall()[0][0])


def _keys_equal(left: str, right: str, key: list[str]) -> str:
    """Return an SQL condition that rows of two tables, given by alias, have the same key."""
    names = map(quoted, key)
    return " AND ".join(f"{left}.{name} IS NOT DISTINCT FROM {right}.{name}" for name in names)


def _values_differ(left: str, right: str, kinds: set[str], tolerance: float) -> str:
    """Return an SQL condition that two expressions differ by more than a tolerance.

    Args:
        left: One SQL expression.
        right: The other one.
        kinds: Their DuckDB types. An integer or a decimal never equals a floating-point number that
            only rounds to the same one.
        tolerance: The part of the larger value by which they may differ; 0 for none.
    """
    differ = f"{left} IS DISTINCT FROM {right}"
    if kinds & FLOATING and kinds & INTEGERS:
        exact = [f"TRY_CAST({side} AS DECIMAL(38, 0))" for side in (left, right)]
        return f"({differ} OR {exact[0]} IS DISTINCT FROM {exact[1]})"
    scales = [kind.rpartition(",")[2].rstrip(")") for kind in kinds if kind.startswith("DECIMAL")]
    if kinds & FLOATING and scales:
        # By its text, as a number in binary is hardly ever that of its decimal digits.
        exact = [
            f"TRY_CAST(CAST({side} AS VARCHAR) AS DECIMAL(38, {scales[0]}))"
            for side in (left, right)
        ]
        return f"({differ} OR {exact[0]} IS DISTINCT FROM {exact[1]})"
    return f"({differ} AND NOT {_is_near(left, right, tolerance)})" if tolerance else differ


def _is_near(left: str, right: str, tolerance: float) -> str:
    """Return an SQL condition that two finite floating-point numbers are within a tolerance."""
    a, b = f"CAST({left} AS DOUBLE)", f"CAST({right} AS DOUBLE)"
    close = f"abs({a} - {b}) <= {tolerance!r} * greatest(abs({a}), abs({b}))"
    return f"coalesce(isfinite({a}) AND isfinite({b}) AND {close}, false)"


def key_of(key: Sequence[str], row: tuple[Any, ...]) -> dict[str, Any]:
    """Return the key of a row as JSON values by column.

    Args:
        key: Columns of the key.
        row: A row of DuckDB that begins with the values of these columns; others may follow.
    """
    return {name: json_value(value) for name, value in zip(key, row, strict=False)}


def json_value(value: Any) -> Any:
    """Return a value of DuckDB in the form that JSON has for it.

    Infinity, NaN and decimals become text, times ISO 8601, bytes hexadecimal digits; null is None.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): json_value(item) for name, item in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)
