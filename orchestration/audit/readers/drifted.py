"""Reader of Parquet files whose columns differ, for the audit, independent of how the runs do it.

Files with the same columns are read together; DuckDB combines the groups by name and finds the
common types itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from glob import escape

import duckdb
import pyarrow.parquet as pq

from orchestration.audit.sql import columns_of, duckdb_types, struct
from sources.common.sql_names import literal, quoted
from sources.config.file_options import SchemaDrift
from sources.config.file_source import FileSource


def hive_options(partitions: Mapping[str, str]) -> str:
    """Return the options of DuckDB's readers for columns that are only in folder names.

    Args:
        partitions: Partition columns and their Spark SQL types.
    """
    if not partitions:
        return "hive_partitioning = false"
    return f"hive_partitioning = true, hive_types = {struct(duckdb_types(partitions))}"


def drifted_rows(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    paths: Sequence[str],
    partitions: Mapping[str, str],
) -> str:
    """Return a query, in brackets, of the rows of Parquet files whose columns differ.

    Columns have their last names and a type that holds the values of all files. A column that a
    file lacks has its declared default, or is null.

    Args:
        connection: The audit's database.
        source: Declaration of the source, with ``schema_drift``.
        paths: Local paths of the files.
        partitions: Partition columns and their Spark SQL types.

    Raises:
        duckdb.Error: A file can't be read, or a default does not fit.
    """
    drift = source.schema_drift or SchemaDrift()
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in paths:
        groups[tuple(sorted(pq.read_schema(path).names))].append(path)
    declared = duckdb_types(source.columns or {})
    empty = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in declared.items())
    first = [f"SELECT {empty} WHERE false"] if declared else []

    def combined(defaults: Mapping[str, str]) -> str:
        parts = [_group(names, of, drift, partitions, defaults) for names, of in groups.items()]
        return " UNION ALL BY NAME ".join([*first, *parts])

    types = columns_of(connection, combined({}))
    texts = {name: literal(str(value)) for name, value in drift.defaults.items()}
    return f"({combined({name: f'CAST({text} AS {types[name]})' for name, text in texts.items()})})"


def _group(
    names: Sequence[str],
    paths: Sequence[str],
    drift: SchemaDrift,
    partitions: Mapping[str, str],
    defaults: Mapping[str, str],
) -> str:
    """Return the query of files that have the same columns.

    Args:
        names: Their columns.
        paths: Their local paths.
        drift: The declared differences.
        partitions: Partition columns.
        defaults: SQL of the default of each column that has one.
    """
    last = {name: drift.renamed.get(name, name) for name in names}
    selected = [f"{quoted(name)} AS {quoted(of)}" for name, of in last.items()]
    selected += map(quoted, partitions)
    selected += [
        f"{value} AS {quoted(name)}"
        for name, value in defaults.items()
        if name not in last.values()
    ]
    files = ", ".join(literal(escape(path)) for path in paths)
    reader = f"read_parquet([{files}], union_by_name = true, {hive_options(partitions)})"
    return f"SELECT {', '.join(selected)} FROM {reader}"
