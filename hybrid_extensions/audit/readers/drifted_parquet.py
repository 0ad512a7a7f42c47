"""Parquet files with differing columns in the audit: types, renames, defaults (`schema_drift`).

Files with the same columns are read together; DuckDB combines the groups by name and finds the
common types itself. Of times of nanoseconds it has all digits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import escape
from typing import NamedTuple

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from hybrid_extensions.audit.readers.folder_values import options, with_values
from hybrid_extensions.comparison.duckdb_database import columns_of, duckdb_types
from hybrid_extensions.comparison.maps import normalized_value
from sources.common.sql.sql_names import literal, quoted
from sources.config.source.file_options import SchemaDrift
from sources.config.source.file_source import FileSource
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import unreadable
from sources.formats.parquet.footers import needs_parsing


class Group(NamedTuple):
    """Files with the same columns, which one query reads.

    Attributes:
        names: Names of their columns that have values.
        reader: FROM clause that reads the files.
        nulls: Names of their columns that are null throughout, which have no type.
    """

    names: Sequence[str]
    reader: str
    nulls: Sequence[str] = ()


def types_may_differ(paths: Sequence[str]) -> bool:
    """Return whether a file has a column whose type the other files may have differently.

    That is one with times of nanoseconds, or one without any value, which has no type. A file that
    can't be opened is skipped here: its reader raises the error.

    Args:
        paths: Local paths of Parquet files.
    """
    for path in paths:
        with suppress(OSError, pa.ArrowException):
            if any(map(needs_parsing, parquet_file(path).schema_arrow.types)):
                return True
    return False


def drifted_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Sequence[str],
    partitions: Mapping[str, str],
) -> str:
    """Return a query, in parentheses, for the rows of Parquet files with differing columns.

    Times of nanoseconds are cut off to microseconds, towards the past.

    Args:
        connection: The audit's database.
        source: The source, with the declared differences.
        paths: Local paths of the files.
        partitions: Partition columns and their Spark SQL types.

    Raises:
        InputError: A file can't be read.
    """
    kinds: dict[str, dict[str, str]] = {}
    for path in paths:
        try:
            fields = parquet_file(path).schema_arrow
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None
        kinds[path] = {each.name: str(each.type) for each in fields}
    for path, name in _without_values(connection, kinds):
        kinds[path][name] = "null"
    groups: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for path, kind_of in kinds.items():
        groups[tuple(sorted(kind_of.items()))].append(path)
    every = []
    for columns, of in groups.items():
        files = ", ".join(literal(escape(path)) for path in of)
        found = f"read_parquet([{files}], union_by_name = true, {options(partitions)})"
        nulls = [name for name, kind in columns if kind == "null"]
        names = [name for name, _ in columns if name not in nulls]
        reader = _in_micros(connection, with_values(found, of, [*partitions]))
        every.append(Group(names, reader, nulls))
    return union_query(connection, source, every, partitions)


def _without_values(
    connection: duckdb.DuckDBPyConnection, kinds: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return paths and columns without any value, of those whose types differ between files."""
    types: dict[str, set[str]] = defaultdict(set)
    for of in kinds.values():
        for name, kind in of.items():
            types[name].add(kind)
    names = [name for name, of in types.items() if len(of) > 1]
    if not names:
        return []
    files = ", ".join(literal(escape(path)) for path in kinds)
    columns = ", ".join(map(literal, names))
    rows = connection.execute(
        f"SELECT file_name, path_in_schema FROM parquet_metadata([{files}]) "
        f"WHERE path_in_schema IN ({columns}) GROUP BY ALL "
        "HAVING coalesce(sum(stats_null_count), -1) = sum(num_values)"
    )
    return [(path, name) for path, name in rows.fetchall()]


def _in_micros(connection: duckdb.DuckDBPyConnection, reader: str) -> str:
    """Return what files are read by, with times of nanoseconds cut off to microseconds."""
    rows = connection.sql(f"SELECT * FROM {reader} LIMIT 0")
    changed = {
        name: made
        for name, kind in zip(rows.columns, rows.types, strict=True)
        if "_NS" in str(kind)
        and (made := normalized_value(quoted(name), kind, _floored)) is not None
    }
    if not changed:
        return reader
    replaced = ", ".join(f"{made} AS {quoted(name)}" for name, made in changed.items())
    return f"(SELECT * REPLACE ({replaced}) FROM {reader})"


def _floored(value: str, kind: DuckDBPyType) -> str | None:
    if not kind.id.endswith("_ns"):
        return None
    # DuckDB's integer division cuts off towards zero.
    nanos = f"epoch_ns({value})"
    return f"make_timestamptz({nanos} // 1000 - CASE WHEN {nanos} % 1000 < 0 THEN 1 ELSE 0 END)"


def union_query(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    groups: Sequence[Group],
    partitions: Mapping[str, str],
) -> str:
    """Return a query, in parentheses, for the rows of groups of files.

    Columns have their names after the declared renames, and a type that holds the values of all
    files. A column that a file lacks has its declared default, or is null.

    Args:
        connection: The audit's database, which is asked for the common types.
        source: The source, with the declared differences.
        groups: The groups; the query has no rows without any.
        partitions: Partition columns, which each group's reader returns.
    """
    drift = source.schema_drift or SchemaDrift()
    declared = duckdb_types(source.columns or {})
    empty = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in declared.items())
    first = [f"SELECT {empty} WHERE false"] if declared else []

    def combined(defaults: Mapping[str, str]) -> str:
        parts = [_query(group, drift, partitions, defaults) for group in groups]
        return " UNION ALL BY NAME ".join([*first, *parts])

    types = columns_of(connection, combined({}))
    texts = {name: literal(str(value)) for name, value in drift.defaults.items()}
    return f"({combined({name: f'CAST({text} AS {types[name]})' for name, text in texts.items()})})"


def _query(
    group: Group,
    drift: SchemaDrift,
    partitions: Mapping[str, str],
    defaults: Mapping[str, str],
) -> str:
    """Return the query of files that have the same columns.

    Args:
        group: The files.
        drift: The declared differences.
        partitions: Partition columns.
        defaults: SQL of the default of each column that has one.
    """
    last = {name: drift.renamed.get(name, name) for name in [*group.names, *group.nulls]}
    own = {name: of for name, of in last.items() if name not in partitions}
    selected = [
        f"{'NULL' if name in group.nulls else quoted(name)} AS {quoted(of)}"
        for name, of in own.items()
    ]
    selected += map(quoted, partitions)
    selected += [
        f"{value} AS {quoted(name)}"
        for name, value in defaults.items()
        if name not in last.values()
    ]
    return f"SELECT {', '.join(selected)} FROM {group.reader}"
