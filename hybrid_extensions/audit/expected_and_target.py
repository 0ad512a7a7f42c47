"""Both sides of an audit: expected rows and target's; columns, types, `audit.tolerance` checked.

:func:`hybrid_extensions.comparison.compare_tables.compare` judges their rows: missing, doubled,
unexpected or different.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import duckdb

from hybrid_extensions.audit.computed.expected_query import ExpectedQuery
from hybrid_extensions.audit.computed.proven_expressions import NotProvenError, not_compared
from hybrid_extensions.comparison.compared_tables import (
    comparable_as,
    create_target_rows,
    open_target,
    require_own_rows,
)
from hybrid_extensions.comparison.duckdb_database import FLOATING, columns_of, error_text
from sources.common.sql.sql_names import column_list
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.serving import target_of


def create_sides(
    connection: duckdb.DuckDBPyConnection,
    loaded: LoadedPipeline,
    query: ExpectedQuery | None,
    unproven: Mapping[str, str],
) -> tuple[list[str], list[str]]:
    """Create the two tables that the audit compares, with the same columns.

    ``audit.expected`` has the rows that the target has to hold, ``audit.found`` those that it
    holds. A target that does not exist counts as a table without rows.

    Args:
        connection: The audit's database, with the views of the input.
        loaded: The pipeline.
        query: DuckDB query that computes the expected rows; None if every row of ``input`` is
            expected unchanged, in the columns that the target has too.
        unproven: By column that ``input`` lacks, why: only Spark evaluates it.

    Returns:
        Sentences about what is not compared and therefore not proved, and other notes; each may be
        empty.

    Raises:
        NotProvenError: A query is declared, and a column of its input is not proven to be right.
        InputError: The query fails, its columns differ from the target's, or the target can't be
            read.
        StateError: Another generation has replaced this one in the target; or the state is damaged.
        UnavailableError: A store does not answer.
    """
    if query is not None and query.is_declared and unproven:
        raise NotProvenError(next(iter(unproven.values())))
    key = loaded.pipeline.sink.row_key
    path = target_of(loaded)
    target = open_target(path)
    # After the version is known: a promotion that comes later takes none of its rows away.
    require_own_rows(loaded)
    # Says of which change a value is, and is in no row of the input.
    unchanged = loaded.pipeline.sink.unchanged
    fields = target.schema().fields if target else []
    columns = [field.name for field in fields if field.name not in (unchanged, *unproven)]
    unchecked = not_compared(unproven)
    notes: list[str] = []
    if query is None:
        shared = _shared_columns(connection, columns or None, key)
        if omitted := [name for name in columns if name not in shared]:
            unchecked.append(
                f"Columns not compared, because no `audit.sql` computes them: {', '.join(omitted)}."
            )
        query = ExpectedQuery(f"SELECT {column_list(shared)} FROM input")
        columns = shared
    if query.note is not None:
        notes.append(query.note)
    create_expected(connection, query)
    if target is None:
        notes.append(f"There is no target table {path}: it counts as a table without rows.")
        connection.execute("CREATE TABLE audit.found AS SELECT * FROM audit.expected LIMIT 0")
    else:
        create_target_rows(connection, "found", target, columns)
    check_columns(connection, key, query)
    if loaded.pipeline.audit is not None:
        _check_tolerance(connection, loaded.pipeline.audit.tolerance, key)
    return unchecked, notes


def _shared_columns(
    connection: duckdb.DuckDBPyConnection, target: list[str] | None, key: list[str]
) -> list[str]:
    """Return the columns of ``input`` that the target has too; without a target, all of them."""
    shared = [name for name in columns_of(connection, "input") if target is None or name in target]
    absent = [name for name in key if name not in shared]
    if absent:
        message = (
            f"`sink.key` names {', '.join(absent)}, which input and target do not both have, so "
            "their rows can't be compared by key."
        )
        hint = (
            "Correct `sink.key`; or, if the transform makes the column, declare "
            "`audit: {sql: FILE}` with a DuckDB query that computes the target from `input`."
        )
        raise InputError(message, hint, field="sink.key", column=absent[0])
    return shared


def create_expected(connection: duckdb.DuckDBPyConnection, query: ExpectedQuery) -> None:
    """Create the table ``audit.expected`` from the result of a query.

    Args:
        connection: The audit's database, with the tables that the query reads.
        query: The query.

    Raises:
        InputError: The query fails, or is not a single statement.
    """
    try:
        statements = connection.extract_statements(query.sql)
        if len(statements) == 1:
            connection.execute(f"CREATE TABLE audit.expected AS {statements[0].query}")
            return
    except duckdb.Error as error:
        message = f"The query of {query.name} fails: {error_text(error)}"
        views = ", ".join(_views(connection))
        hint = query.hint or f"Correct the query; the tables that it can read: {views}."
        raise InputError(message, hint, field=query.field) from None
    message = f"{query.name} holds {len(statements)} statements; exactly one is allowed."
    hint = "Write a single SELECT, with other queries as its WITH clauses."
    raise InputError(message, hint, field=query.field)


def _views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the names, in backticks, of the tables and views that ``audit.sql`` can read."""
    query = (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1"
    )
    return [f"`{row[0]}`" for row in connection.execute(query).fetchall()]


def check_columns(
    connection: duckdb.DuckDBPyConnection, key: list[str], query: ExpectedQuery
) -> None:
    """Refuse two tables to be compared if their columns differ in names or kinds of type.

    Their order does not matter; all numbers count as one kind, and so do all timestamps, and all
    lists.

    Args:
        connection: The audit's database, with ``audit.expected`` and ``audit.found``.
        key: Columns of ``sink.key``.
        query: The query of the expected rows, for messages.

    Raises:
        InputError: A column is in one table only, the two types of a column can't be compared, or a
            column of ``sink.key`` is missing.
    """
    expected = columns_of(connection, "audit.expected")
    found = columns_of(connection, "audit.found")
    only = {
        f"only in {query.name}": [name for name in expected if name not in found],
        "only in the target": [name for name in found if name not in expected],
    }
    if parts := [f"{where}: {', '.join(names)}" for where, names in only.items() if names]:
        message = f"{query.name} and the target differ in their columns; {'; '.join(parts)}."
        hint = query.hint or "Let the query return exactly the target's columns, by these names."
        raise InputError(message, hint, field=query.field)
    if absent := [name for name in key if name not in expected]:
        message = (
            f"`sink.key` names {', '.join(absent)}, which the target does not have; it has "
            f"{', '.join(expected)}."
        )
        hint = "Set `sink.key` to columns of the target that identify a row."
        raise InputError(message, hint, field="sink.key", column=absent[0])
    for name, kind in expected.items():
        if comparable_as(kind) != comparable_as(found[name]):
            message = f"Column `{name}` is {kind} in {query.name} and {found[name]} in the target."
            hint = query.hint or f"Cast `{name}` in the query of {query.name} to {found[name]}."
            raise InputError(message, hint, field=query.field, column=name)


def with_rounded(
    connection: duckdb.DuckDBPyConnection, query: ExpectedQuery | None
) -> ExpectedQuery | None:
    """Return a query of the transform as not proven if DuckDB has no digits of a decimal column.

    Averages of decimals are decimals in Spark, with as many digits as its rule says.

    Args:
        connection: The audit's database, with ``audit.expected`` and ``audit.found``.
        query: The query of the expected rows; None if there is none.
    """
    if query is None or query.field != "transform.sql" or query.unproven is not None:
        return query
    found = columns_of(connection, "audit.found")
    for name, kind in columns_of(connection, "audit.expected").items():
        if kind in FLOATING and found[name].startswith("DECIMAL"):
            return replace(query, unproven=f"`{name}`, {kind} here and {found[name]} there,")
    return query


def _check_tolerance(
    connection: duckdb.DuckDBPyConnection, tolerance: Mapping[str, float], key: list[str]
) -> None:
    """Refuse a tolerance for anything but a floating-point column outside the key."""
    sides = [columns_of(connection, f"audit.{side}") for side in ("expected", "found")]
    for name in tolerance:
        kinds = {side[name] for side in sides if name in side}
        if kinds and kinds <= FLOATING and name not in key:
            continue
        what = " and ".join(sorted(kinds)) or "no column of the target"
        if name in key:
            what = "part of `sink.key`"
        message = (
            f"`audit.tolerance` names `{name}`, which is {what}: only a floating-point column "
            "outside the key may differ by rounding."
        )
        hint = f"Remove `{name}` from `audit.tolerance`, or correct its name."
        raise InputError(message, hint, field="audit.tolerance", column=name)
