"""Reader of Parquet files whose columns differ, for the audit, independent of how the runs do it.

Files with the same columns are read together; DuckDB combines the groups by name and finds the
common types itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from glob import escape
from typing import NamedTuple

import duckdb
import pyarrow.parquet as pq

from orchestration.audit.readers.folder_values import options, with_values
from orchestration.audit.sql import columns_of, duckdb_types
from sources.common.sql_names import literal, quoted
from sources.config.file_options import SchemaDrift
from sources.config.file_source import FileSource


class Group(NamedTuple):
    """Files that have the same columns.

    Attributes:
        names: Their columns that have values.
        reader: What they are read by, in the FROM clause of a query.
        nulls: Their columns that are null throughout, of no type.
    """

    names: Sequence[str]
    reader: str
    nulls: Sequence[str] = ()


def drifted_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Sequence[str],
    partitions: Mapping[str, str],
) -> str:
    """Return a query, in brackets, of the rows of Parquet files whose columns differ.

    Args:
        connection: The audit's database.
        source: Declaration of the source.
        paths: Local paths of the files.
        partitions: Partition columns and their Spark SQL types.

    Raises:
        duckdb.Error: A file can't be read, or a default does not fit.
    """
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in paths:
        groups[tuple(sorted(pq.read_schema(path).names))].append(path)

    def reader(of: Sequence[str]) -> str:
        files = ", ".join(literal(escape(path)) for path in of)
        found = f"read_parquet([{files}], union_by_name = true, {options(partitions)})"
        return with_values(found, of, [*partitions])

    every = [Group(names, reader(of)) for names, of in groups.items()]
    return united(connection, source, every, partitions)


def united(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    groups: Sequence[Group],
    partitions: Mapping[str, str],
) -> str:
    """Return a query, in brackets, of the rows of files whose columns differ.

    Columns have their last names and a type that holds the values of all files. A column that a
    file lacks has its declared default, or is null.

    Args:
        connection: The audit's database.
        source: Declaration of the source.
        groups: The files.
        partitions: Partition columns and their Spark SQL types.

    Raises:
        duckdb.Error: A file can't be read, or a default does not fit.
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
