"""Rows in the forms that sinks need, as SQL of DuckDB: joined keys, JSON, bytes, NaN, nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
from duckdb.sqltypes import DuckDBPyType

from hybrid_extensions.comparison.maps import normalized_value
from hybrid_extensions.feeds.base import Form
from hybrid_extensions.feeds.delivery import DELETED
from sources.common.sql.sql_names import column_list, literal, quoted

_DIGITS = 38
"""Most digits of a decimal."""
_NESTED = {"list", "map", "struct"}


def selected_as(form: Form, rows: duckdb.DuckDBPyRelation, key: Sequence[str]) -> str:
    """Return the SELECT list, as DuckDB's SQL, by which rows have the form that a sink needs.

    Args:
        form: As :meth:`hybrid_extensions.feeds.rows.Rows.read` describes it.
        rows: The rows, with :data:`~hybrid_extensions.feeds.delivery.DELETED`.
        key: Columns that identify a row.
    """
    kinds = dict(zip(rows.columns, rows.types, strict=True))
    del kinds[DELETED]
    if form == "arrow":
        selected = column_list(list(kinds))
    elif form == "text":
        selected = ", ".join(f"{_text(*each)} AS {quoted(each[0])}" for each in kinds.items())
    elif form == "fields":
        name = _name({each: kinds[each] for each in key})
        selected = f"{name} AS name, {_fields(kinds)} AS fields"
    else:
        of_key = _as_json({each: kinds[each] for each in key})
        selected = f"{of_key} AS key, {_as_json(kinds)} AS row"
    return f"{selected}, {quoted(DELETED)}"


def _text(name: str, kind: DuckDBPyType) -> str:
    if kind.id in _NESTED:
        return f"CAST(to_json({_parts_as_json(name, kind)}) AS VARCHAR)"
    return (
        f"'\\x' || hex({quoted(name)})" if kind.id == "blob" else f"CAST({quoted(name)} AS VARCHAR)"
    )


def _name(key: Mapping[str, DuckDBPyType]) -> str:
    """Return SQL for the texts of a key, joined so that no two keys have the same."""
    texts = [_text(*each) for each in key.items()]
    if len(texts) > 1:
        texts = [f"replace(replace({each}, '%', '%25'), ':', '%3A')" for each in texts]
    return " || ':' || ".join(f"coalesce({each}, '%-')" for each in texts)


def _fields(columns: Mapping[str, DuckDBPyType]) -> str:
    pairs = (
        f"CASE WHEN {quoted(name)} IS NULL THEN [] ELSE [{literal(name)}, {_text(name, kind)}] END"
        for name, kind in columns.items()
    )
    return f"CAST(to_json(flatten([{', '.join(pairs)}])) AS VARCHAR)"


def _as_json(columns: Mapping[str, DuckDBPyType]) -> str:
    parts = ", ".join(f"{quoted(name)} := {_json(name, kind)}" for name, kind in columns.items())
    return f"CAST(to_json(struct_pack({parts})) AS VARCHAR)"


def _json(name: str, kind: DuckDBPyType) -> str:
    value = quoted(name)
    if kind.id.startswith("timestamp"):
        zone = "Z" if kind.id == "timestamp with time zone" else ""
        return f"strftime({value}, '%Y-%m-%dT%H:%M:%S.%f{zone}')"
    if kind.id == "blob":
        return f"base64({value})"
    return _parts_as_json(name, kind)


def _parts_as_json(name: str, kind: DuckDBPyType) -> str:
    """Return SQL of a value of which DuckDB makes JSON; the entries of maps are in order."""
    return normalized_value(quoted(name), kind, _leaf) or quoted(name)


def _leaf(value: str, kind: DuckDBPyType) -> str | None:
    """Return SQL of what DuckDB's own JSON has no valid form for; None for all else."""
    if kind.id in ("float", "double"):
        infinity = f"""if({value} > 0, '"Infinity"', '"-Infinity"')"""
        odd = f"""if(isnan({value}), '"NaN"', {infinity})"""
        return f"if(isfinite(coalesce({value}, 0)), to_json({value}), CAST({odd} AS JSON))"
    if kind.id == "date":
        return f"strftime({value}, '%Y-%m-%d')"
    if kind.id == "decimal":
        (_, precision), (_, scale) = kind.children
        if precision == scale:
            # DuckDB writes no digit before the point; the longest number has no room for one.
            wider = f"DECIMAL({precision + 1}, {scale})" if precision < _DIGITS else "VARCHAR"
            return f"CAST({value} AS {wider})"
    return None
