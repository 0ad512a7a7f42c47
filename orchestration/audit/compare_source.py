"""The proof of a table that was taken over: target and source, row for row.

The source is asked for its rows by COPY, the target is read from its files by delta-rs, and DuckDB
compares them: nothing here is shared with what wrote the target, nor with the snapshot.
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
from orchestration.audit.sql import count_rows, duckdb_types, listed, literal, open_database, quoted
from sources.common.optional import needs_extra
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import SnapshotOptions
from sources.errors import InputError
from sources.generations import target_of

with needs_extra("postgres", "Comparing with PostgreSQL"):
    import psycopg
    from psycopg import sql


@dataclass(frozen=True)
class SourceComparison:
    """What was found.

    Attributes:
        table: Of the source.
        rows: Rows of the source.
        found: Rows of the target.
        only_in_source: Rows of the source that the target does not hold, or not as they are.
        only_in_target: Rows of the target that the source does not hold, or not as they are.
        examples: A few of either, as JSON.
        columns: What was compared.
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
        """Whether both hold the same rows, each as often."""
        return not self.only_in_source and not self.only_in_target

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, ``ok`` included."""
        return {**asdict(self), "ok": self.ok}


def compare_with_source(loaded: LoadedPipeline) -> SourceComparison:
    """Compare the target of a pipeline with the table that it took over, as both are now.

    Changes that the live run has not merged yet show up as differences.

    Raises:
        InputError: The pipeline takes over no table, or one of the two can't be read.
    """
    options, table, columns = _declared(loaded)
    return compare_table(options.dsn, table, columns, target_of(loaded))


def compare_table(dsn: str, table: str, columns: Mapping[str, str], path: str) -> SourceComparison:
    """Compare a Delta table with a table of a database.

    Args:
        dsn: The database; PGPASSWORD has the password.
        table: ``schema.table``.
        columns: Its columns and their Spark SQL types; those are compared that the target has.
        path: The Delta table.

    Raises:
        InputError: One of the two can't be read.
    """
    if not DeltaTable.is_deltatable(path):
        message = f"There is no Delta table {path}."
        raise InputError(message, "Run the pipeline first.")
    target = DeltaTable(path)
    held = {field.name for field in target.schema().fields}
    compared = {name: kind for name, kind in columns.items() if name in held}
    with (
        TemporaryDirectory(prefix="hybrid-compare-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        file = Path(scratch) / "source.csv"
        _copy(dsn, table, compared, file)
        _create_sides(connection, compared, file, target)
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


def _declared(loaded: LoadedPipeline) -> tuple[SnapshotOptions, str, dict[str, str]]:
    """Where the table is, its name, and its columns."""
    for source in loaded.pipeline.sources:
        topic = loaded.pipeline.topic_after(source.name)
        if isinstance(source, FileSource) and source.snapshot is not None and topic is not None:
            gone = topic.dropped_columns or []
            columns = {**topic.value_columns, **topic.added_types}
            held = {name: kind for name, kind in columns.items() if name not in gone}
            return source.snapshot, str(topic.table), held
    message = f"Pipeline `{loaded.pipeline.name}` has no source with a `snapshot`."
    raise InputError(message, "There is no table to compare with.")


def _copy(dsn: str, table: str, columns: dict[str, str], file: Path) -> None:
    parts = [
        sql.SQL("encode({}, 'hex')" if kind == "binary" else "{}").format(sql.Identifier(name))
        for name, kind in columns.items()
    ]
    query = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv)").format(
        sql.SQL(", ").join(parts), sql.Identifier(*table.split(".", 1))
    )
    try:
        with (
            psycopg.connect(dsn, options="-c timezone=UTC -c datestyle=ISO") as connection,
            connection.cursor().copy(query) as copy,
            file.open("wb") as out,
        ):
            for data in copy:
                out.write(data)
    except psycopg.Error as error:
        message = f"Table `{table}` can't be read: {' '.join(str(error).split())}."
        raise InputError(message, "Correct `snapshot.dsn`, or set PGPASSWORD.") from None


def _create_sides(
    connection: duckdb.DuckDBPyConnection,
    columns: dict[str, str],
    file: Path,
    target: DeltaTable,
) -> None:
    """Make the tables ``source`` and ``target`` with the same columns and types."""
    types = duckdb_types(columns)
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    values = [
        f"{f'unhex({quoted(n)})' if kind == 'BLOB' else f'CAST({quoted(n)} AS {kind})'} "
        f"AS {quoted(n)}"
        for n, kind in types.items()
    ]
    connection.execute(
        f"CREATE TABLE source AS SELECT {', '.join(values)} FROM read_csv({literal(str(file))}, "
        f"header=false, auto_detect=false, delim=',', quote='\"', escape='\"', nullstr='', "
        f"allow_quoted_nulls=false, max_line_size=16777216, columns={{{texts}}})"
    )
    query = f"SELECT {listed(columns)} FROM target"
    stream = QueryBuilder().register("target", target).execute(query)
    connection.register("_target", pa.RecordBatchReader.from_stream(stream))
    held = [f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in types.items()]
    connection.execute(f"CREATE TABLE target AS SELECT {', '.join(held)} FROM _target")
    connection.unregister("_target")
