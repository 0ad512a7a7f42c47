"""Proof of a captured table: compares the target with the table in PostgreSQL, row for row.

PostgreSQL sends its rows by COPY, delta-rs reads the target, and DuckDB compares them. No code is
shared with the snapshot or with the runs that write the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from orchestration.audit.report import EXAMPLES
from orchestration.audit.run import MEMORY_LIMIT
from orchestration.audit.sql import (
    column_list,
    count_rows,
    duckdb_type,
    literal,
    open_database,
    quoted,
)
from sources.common.optional import needs_extra
from sources.common.schema import parse_type
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.serving import target_of
from sources.storage.delta import delta_table, is_delta_table
from sources.storage.folder import Folder

with needs_extra("postgres", "Comparing with PostgreSQL"):
    import psycopg
    from psycopg import sql

# Without row security PostgreSQL refuses what it would answer with a part of the rows.
_SETTINGS = "-c timezone=UTC -c datestyle=ISO -c row_security=off"


@dataclass(frozen=True)
class SourceComparison:
    """Differences between a database table (the source) and the target.

    A row that differs in one column is counted on both sides.

    Attributes:
        table: Name of the database table, ``schema.table``.
        rows: Rows of the database table.
        found: Rows of the target.
        only_in_source: Rows of the database table that the target does not hold with equal values.
        only_in_target: Rows of the target that the database table does not hold with equal values.
        examples: Up to :data:`orchestration.audit.report.EXAMPLES` rows of each side, as JSON.
        columns: Names of the columns that were compared.
    """

    table: str
    rows: int
    found: int
    only_in_source: int
    only_in_target: int
    examples: list[str]
    columns: list[str]

    @property
    def ok(self) -> bool:
        """Whether both tables hold equal rows, each row equally often."""
        return not self.only_in_source and not self.only_in_target

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary that JSON can represent, with ``ok``."""
        return {**asdict(self), "ok": self.ok}


def compare_with_source(loaded: LoadedPipeline) -> SourceComparison:
    """Compare a pipeline's target with the PostgreSQL table that it captures, as both are now.

    Changes that the live run has not merged yet are reported as differences.

    Raises:
        InputError: The pipeline captures no table, there is no target yet, or one of the two can't
            be read, such as for a database that does not answer or a wrong password.
    """
    options, table, columns = _captured_table(loaded)
    return compare_table(options.dsn, table, columns, target_of(loaded))


def compare_table(
    dsn: str, table: str, columns: Mapping[str, str], path: Folder
) -> SourceComparison:
    """Compare a Delta table with a PostgreSQL table row by row, each row as often as it occurs.

    Args:
        dsn: Connection string of the database; the password is in PGPASSWORD.
        table: Name of the PostgreSQL table, ``schema.table``.
        columns: Its columns and their Spark SQL types; only those that the Delta table has are
            compared.
        path: Folder of the Delta table.

    Raises:
        InputError: There is no Delta table, or one of the two can't be read.
    """
    if not is_delta_table(path):
        message = f"There is no Delta table {path} to compare with `{table}`."
        hint = "Compute the table first, with `hybrid run`, or correct its path."
        raise InputError(message, hint, table=path.url)
    target = delta_table(path)
    target_columns = {field.name for field in target.schema().fields}
    compared = {name: kind for name, kind in columns.items() if name in target_columns}
    with (
        TemporaryDirectory(prefix="hybrid-compare-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        file = Path(scratch) / "source.csv"
        _copy_source(dsn, table, compared, file)
        _create_tables(connection, compared, file, target)
        source, found = count_rows(connection, "source"), count_rows(connection, "target")
        counts, examples = {}, []
        for one, other in (("source", "target"), ("target", "source")):
            connection.execute(
                f"CREATE TABLE only_{one} AS SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}"
            )
            counts[one] = count_rows(connection, f"only_{one}")
            rows = connection.execute(
                f"SELECT to_json(r)::VARCHAR FROM only_{one} r ORDER BY ALL LIMIT {EXAMPLES}"
            ).fetchall()
            examples += [f"only in the {one}: {row[0]}" for row in rows]
    return SourceComparison(
        table=table,
        rows=source,
        found=found,
        only_in_source=counts["source"],
        only_in_target=counts["target"],
        examples=examples,
        columns=list(compared),
    )


def _captured_table(loaded: LoadedPipeline) -> tuple[SnapshotOptions, str, dict[str, str]]:
    """Return how to reach the captured table, its name, and its columns with Spark SQL types.

    Raises:
        InputError: No source of the pipeline declares a ``snapshot``.
    """
    for source in loaded.pipeline.sources:
        topic = loaded.pipeline.topic_after(source.name)
        if isinstance(source, FileSource) and source.snapshot is not None and topic is not None:
            dropped = topic.dropped_columns or []
            columns = {**topic.value_columns, **topic.added_types}
            current = {name: kind for name, kind in columns.items() if name not in dropped}
            return source.snapshot, str(topic.table), current
    message = (
        f"Pipeline `{loaded.pipeline.name}` captures no database table: none of its sources "
        "declares a `snapshot` and is followed by the topic of the table's changes."
    )
    hint = "Compare the target with the pipeline's raw input instead: `hybrid audit`."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="snapshot")


def _copy_source(dsn: str, table: str, columns: dict[str, str], file: Path) -> None:
    """Write all rows of a PostgreSQL table to a CSV file; nulls are empty, times are in UTC.

    Args:
        dsn: Connection string of the database.
        table: ``schema.table``.
        columns: Columns to write and their Spark SQL types; binary values become hexadecimal,
            arrays JSON.
        file: The CSV file.

    Raises:
        InputError: The database does not answer, or refuses.
    """
    parts = [
        sql.SQL(_written(parse_type(kind))).format(sql.Identifier(name))
        for name, kind in columns.items()
    ]
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(
        sql.SQL(", ").join(parts), sql.Identifier(*table.split(".", 1))
    )
    try:
        with (
            psycopg.connect(dsn, options=_SETTINGS) as connection,
            connection.cursor().copy(query) as copy,
            file.open("wb") as out,
        ):
            for data in copy:
                out.write(data)
    except psycopg.Error as error:
        message = f"PostgreSQL table `{table}` can't be read: {' '.join(str(error).split())}."
        hint = (
            "Start the database if it is down; otherwise correct `snapshot.dsn` or the topic's "
            "`table`, set PGPASSWORD to the user's password, or grant SELECT on the table to the "
            "user."
        )
        raise InputError(message, hint, table=table, field="snapshot.dsn") from None


def _written(kind: pa.DataType) -> str:
    """A column in PostgreSQL's SQL as it is written to the CSV file; ``{}`` stands for its name."""
    if pa.types.is_list(kind):
        return "array_to_json({})"
    return "encode({}, 'hex')" if pa.types.is_binary(kind) else "{}"


def _parsed(name: str, kind: pa.DataType) -> str:
    """A column of the CSV file in DuckDB's SQL, as a value of its type."""
    if pa.types.is_list(kind):
        if not pa.types.is_binary(kind.value_type):
            return f"CAST({name}::JSON AS {duckdb_type(kind)})"
        # PostgreSQL writes bytes within JSON as hexadecimal digits after "\x".
        return f"list_transform(CAST({name}::JSON AS VARCHAR[]), lambda x: unhex(x[3:]))"
    return f"unhex({name})" if pa.types.is_binary(kind) else f"CAST({name} AS {duckdb_type(kind)})"


def _create_tables(
    connection: duckdb.DuckDBPyConnection,
    columns: dict[str, str],
    file: Path,
    target: DeltaTable,
) -> None:
    """Create the DuckDB tables ``source`` and ``target`` with the same columns and types.

    Args:
        connection: The audit's database.
        columns: Columns and their Spark SQL types.
        file: CSV file with the rows of the source.
        target: The Delta table.
    """
    types = {name: parse_type(kind) for name, kind in columns.items()}
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    values = [f"{_parsed(quoted(n), kind)} AS {quoted(n)}" for n, kind in types.items()]
    connection.execute(
        f"CREATE TABLE source AS SELECT {', '.join(values)} FROM read_csv({literal(str(file))}, "
        f"header=false, auto_detect=false, delim=',', quote='\"', escape='\"', nullstr='', "
        f"allow_quoted_nulls=false, max_line_size=16777216, columns={{{texts}}})"
    )
    query = f"SELECT {column_list(columns)} FROM target"
    stream = QueryBuilder().register("target", target).execute(query)
    connection.register("_target", pa.RecordBatchReader.from_stream(stream))
    casts = [f"CAST({quoted(n)} AS {duckdb_type(k)}) AS {quoted(n)}" for n, k in types.items()]
    connection.execute(f"CREATE TABLE target AS SELECT {', '.join(casts)} FROM _target")
    connection.unregister("_target")
