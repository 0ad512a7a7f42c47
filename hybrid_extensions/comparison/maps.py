"""Maps sorted by key, also nested ones, so that DuckDB compares them without regard to order.

DuckDB takes the same entries in another order for another map.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb
from duckdb.sqltypes import DuckDBPyType

from sources.common.sql.sql_names import literal, quoted


def sort_maps(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Sort all maps in the rows of a table by key, nested ones included; replace the table.

    For comparisons: DuckDB takes the same entries in another order for another map, and readers of
    Protobuf return them in any order.

    Args:
        connection: The audit's database.
        table: SQL name of the table.
    """
    rows = connection.sql(f"SELECT * FROM {table}")
    sorted_by = {
        name: made
        for name, kind in zip(rows.columns, rows.types, strict=True)
        if (made := normalized_value(quoted(name), kind)) is not None
    }
    if sorted_by:
        replaced = ", ".join(f"{made} AS {quoted(name)}" for name, made in sorted_by.items())
        connection.execute(
            f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE ({replaced}) FROM {table}"
        )


def _as_is(value: str, kind: DuckDBPyType) -> None:
    """Change no value."""
    del value, kind


def normalized_value(
    value: str,
    kind: DuckDBPyType,
    leaf: Callable[[str, DuckDBPyType], str | None] = _as_is,
    depth: int = 0,
) -> str | None:
    """Return SQL for a value with sorted maps and changed leaves; None if it stays as it is.

    Args:
        value: SQL of the value.
        kind: DuckDB type of the value.
        leaf: Called with SQL and type of each value without parts; returns SQL of the changed
            value, or None to leave it. Keys of maps are not passed.
        depth: Number of lists and maps around the value; callers leave it out.
    """
    if kind.id == "map":
        item = f"x{depth}"
        (_, _), (_, inside) = kind.children
        of_value = normalized_value(f"{item}.value", inside, leaf, depth + 1) or f"{item}.value"
        entries = f"[{{'key': {item}.key, 'value': {of_value}}} FOR {item} IN map_entries({value})]"
        return f"map_from_entries(list_sort({entries}))"
    if kind.id == "list":
        item = f"x{depth}"
        made = normalized_value(item, kind.children[0][1], leaf, depth + 1)
        return None if made is None else f"[{made} FOR {item} IN {value}]"
    if kind.id != "struct":
        return leaf(value, kind)
    parts = {
        name: (
            member := f"struct_extract({value}, {literal(name)})",
            normalized_value(member, each, leaf, depth),
        )
        for name, each in kind.children
    }
    if all(made is None for _, made in parts.values()):
        return None
    packed = ", ".join(
        f"{quoted(name)} := {made or member}" for name, (member, made) in parts.items()
    )
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
