"""Which version of a key counts in the audit, by `sink.sequence`; ambiguous keys; TRUNCATE.

Nothing here looks at the order of the sources, as the seam filter of the runs does: a version in
the topic may be newer than the one in the files, or older.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from hybrid_extensions.audit.input_tables import INPUT
from hybrid_extensions.comparison.compare_tables import json_value, key_of
from hybrid_extensions.comparison.duckdb_database import columns_of, count_rows
from hybrid_extensions.comparison.maps import sort_maps
from orchestration.comparison.report import EXAMPLES, AuditExample
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.config.pipeline import Pipeline
from sources.config.table.sink import VALID_FROM, VALID_TO, Sink

_ROWS = "audit.rows"


def create_input(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, table: str = INPUT
) -> tuple[int, list[AuditExample]]:
    """Create the table ``input`` with one row per ``key``, and find ambiguous keys.

    Of several rows with the same key, ``input`` holds the last one by ``sink.sequence``, be it a
    delete; of those that it does not tell apart, one of the earliest source. A key is ambiguous if
    its rows differ and nothing says which one counts: there is no sequence in the input, or the
    last rows have the same one. Without a declared key, ``input`` holds every row. The keys that
    are ambiguous are in the table ``audit.ambiguous``, which is replaced.

    Args:
        connection: The audit's database, with the table ``audit.rows``. It is changed: values that
            a change left as they were are filled in, and TRUNCATEs are applied.
        pipeline: Declares key and sink.
        table: Name of the new table; that of an input, if there are several.

    Returns:
        The number of ambiguous keys, and examples, one for each column whose values differ.
    """
    sort_maps(connection, _ROWS)
    resolve_unchanged_values(connection, pipeline.sink)
    remove_truncated_rows(connection, pipeline)
    columns = [name for name in columns_of(connection, _ROWS) if name != "_place"]
    order = sequence_in(pipeline.sink, columns)
    one_of_each = ""
    if pipeline.key:
        ranks = f"{descending(order)}, _place" if order else "_place"
        one_of_each = (
            f"QUALIFY row_number() OVER (PARTITION BY {column_list(pipeline.key)} "
            f"ORDER BY {ranks}) = 1"
        )
    connection.execute(
        f"CREATE TABLE {quoted(table)} AS SELECT * EXCLUDE (_place) FROM {_ROWS} {one_of_each}"
    )
    key = pipeline.key
    if order and pipeline.audit_sql is None:
        # The sink compares versions by its own key.
        key = pipeline.sink.row_key
        order = [] if pipeline.sink.history is not None else order
    if not key or not set(key) <= set(columns):
        return 0, []
    return _find_ambiguous(connection, key, order, [name for name in columns if name not in key])


def resolve_unchanged_values(connection: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    """Fill in the values that changes in ``audit.rows`` left as they were.

    Each is the value of the last change of the key before it that has one. The column
    ``sink.unchanged``, which names them, is removed from ``audit.rows``. Nothing is done if the
    rows have no such column.

    Args:
        connection: The audit's database, with the table ``audit.rows``.
        sink: The declaration of the sink.
    """
    columns = columns_of(connection, _ROWS)
    if sink.unchanged is None or sink.unchanged not in columns:
        return
    unchanged = quoted(sink.unchanged)
    before = (
        f"(PARTITION BY {column_list(sink.key)} "
        f"ORDER BY {', '.join(f'{quoted(name)} NULLS FIRST' for name in sink.order)}, _place "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    resolved = []
    for name in columns:
        if name in (*sink.key, *sink.order, sink.unchanged, "_place"):
            continue
        lacks = f"coalesce(map_contains({unchanged}, {literal(name)}), false)"
        present = f"CASE WHEN NOT {lacks} THEN struct_pack(v := {quoted(name)}) END"
        last = f"last_value({present} IGNORE NULLS) OVER {before}"
        resolved.append(
            f"CASE WHEN {lacks} THEN ({last}).v ELSE {quoted(name)} END AS {quoted(name)}"
        )
    replaced = f" REPLACE ({', '.join(resolved)})" if resolved else ""
    connection.execute(
        f"CREATE TABLE audit.resolved AS SELECT * EXCLUDE ({unchanged}){replaced} FROM {_ROWS}"
    )
    connection.execute(f"DROP TABLE {_ROWS}")
    connection.execute("ALTER TABLE audit.resolved RENAME TO rows")


def remove_truncated_rows(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
    """Apply TRUNCATEs of the captured table to ``audit.rows``: remove older rows and the events.

    A TRUNCATE is a delete without a key. Nothing is done unless the pipeline follows them.

    Args:
        connection: The audit's database, with the table ``audit.rows``.
        pipeline: Declares key and sink.
    """
    if not pipeline.follows_truncates:
        return
    sink, sequence = pipeline.sink, quoted(pipeline.sink.order[0])
    event = " AND ".join(
        [
            f"coalesce({quoted(str(sink.deleted))}, false)",
            *(f"{quoted(k)} IS NULL" for k in sink.key),
        ]
    )
    connection.execute(
        f"DELETE FROM {_ROWS} WHERE ({event}) OR coalesce({sequence}, '') < "
        f"(SELECT max({sequence}) FROM {_ROWS} WHERE {event})"
    )


def last_change_query(sink: Sink) -> str:
    """Return SQL for the last change of each key in ``audit.rows``, for :func:`expected_query`.

    Changes are ordered by ``sink.order``, nulls first. All of them remain if the sink keeps every
    version (``sink.history``). A key whose last change is a delete has no row, if the sink removes
    rows.
    """
    if sink.history is not None:
        return every_version_query(sink, f"SELECT * EXCLUDE (_place) FROM {_ROWS}")
    last = (
        f"SELECT * EXCLUDE (_place) FROM {_ROWS} QUALIFY row_number() OVER "
        f"(PARTITION BY {column_list(sink.key)} ORDER BY {descending(sink.order)}) = 1"
    )
    if sink.deleted is None or not sink.removes_rows:
        return last
    deleted = quoted(sink.deleted)
    return f"SELECT * EXCLUDE ({deleted}) FROM ({last}) WHERE NOT coalesce({deleted}, false)"


def every_version_query(sink: Sink, changes: str) -> str:
    """Return SQL for every version of a row, with the start and the end of its validity.

    The end is null for the last version.

    Args:
        sink: The declaration of the sink, with ``history``.
        changes: SQL query for all changes.
    """
    time, key, version = quoted(str(sink.history)), column_list(sink.key), column_list(sink.row_key)
    ascending = ", ".join(f"{quoted(name)} ASC NULLS FIRST" for name in sink.order)
    end = (
        f"min({time}) OVER (PARTITION BY {key} ORDER BY {ascending} "
        "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
    )
    one_of_each = f"QUALIFY row_number() OVER (PARTITION BY {version}) = 1"
    return (
        f"SELECT *, {time} AS {VALID_FROM}, {end} AS {VALID_TO} "
        f"FROM (SELECT * FROM ({changes}) {one_of_each})"
    )


def sequence_in(sink: Sink, columns: Sequence[str]) -> list[str]:
    """Return the columns of ``sink.sequence``; empty unless ``columns`` has all of them.

    Names are case-sensitive.
    """
    return sink.order if set(sink.order) <= set(columns) else []


def descending(order: Sequence[str]) -> str:
    """Return SQL that orders rows by columns, the highest value first and nulls last.

    Empty without columns.
    """
    return ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in order)


def _find_ambiguous(
    connection: duckdb.DuckDBPyConnection,
    key: Sequence[str],
    order: Sequence[str],
    others: Sequence[str],
) -> tuple[int, list[AuditExample]]:
    """Find keys of ``audit.rows`` of which several rows may count and differ.

    Args:
        connection: The audit's database.
        key: Columns that identify a row.
        order: Columns that order its versions: only the last ones may count; all, if empty.
        others: Columns outside the key.

    Returns:
        The number of keys, and up to :data:`EXAMPLES` examples.
    """
    names = column_list(key)
    rows = _ROWS
    if order:
        ranked = f"rank() OVER (PARTITION BY {names} ORDER BY {descending(order)})"
        rows = f"(SELECT * FROM {_ROWS} QUALIFY {ranked} = 1)"
    columns = [quoted(name) for name in others]
    # Null is a value like any other.
    differs = [
        f"(min({c}) IS DISTINCT FROM max({c}) OR count({c}) NOT IN (0, count(*)))" for c in columns
    ]
    selected = [names]
    for number, (column, differing) in enumerate(zip(columns, differs, strict=True)):
        selected.append(f"[min({column}), max({column})] AS v{number}, {differing} AS d{number}")
    connection.execute(
        f"CREATE OR REPLACE TABLE audit.ambiguous AS SELECT {', '.join(selected)} FROM {rows} "
        f"GROUP BY {names} HAVING {' OR '.join(['false', *differs])}"
    )
    query = f"SELECT * FROM audit.ambiguous ORDER BY {names} LIMIT {EXAMPLES}"
    examples = [
        AuditExample(key_of(key, row), name, json_value(row[at]), None)
        for row in connection.execute(query).fetchall()
        for at, name in zip(range(len(key), len(row), 2), others, strict=True)
        if row[at + 1]
    ]
    return count_rows(connection, "audit.ambiguous"), examples[:EXAMPLES]
