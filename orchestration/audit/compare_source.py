"""Proof of a captured table: compares the target with the table in its database, row for row.

The database's own tool writes its rows to a file, delta-rs reads the target, and DuckDB compares
them. No code is shared with the snapshot or with the runs that write the target, but for the form
of MySQL's JSON documents, which have no text of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

import duckdb
from deltalake import DeltaTable

from orchestration.audit.maps import sort_maps
from orchestration.audit.report import EXAMPLES
from orchestration.audit.run import MEMORY_LIMIT
from orchestration.audit.sql import count_rows, duckdb_type, open_database
from sources.common.schema import parse_type
from sources.common.sql_names import column_list, in_backticks, quoted
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.sink import VALID_TO, Sink
from sources.config.snapshot import SnapshotOptions, kind_of
from sources.decoding.changes.mysql_json import canonical_json
from sources.errors import InputError
from sources.planning.context import PipelineContext
from sources.serving import target_of
from sources.storage.delta import delta_table, is_delta_table, query_rows
from sources.storage.folder import Folder


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
    """Compare a pipeline's target with the database table that it captures, as both are now.

    Changes that the live run has not merged yet are reported as differences.

    Raises:
        InputError: The pipeline captures no table, there is no target yet, or one of the two can't
            be read, such as for a database that does not answer or a wrong password.
        StateError: The declaration changed in a way that the checkpoint can't follow.
    """
    compared = ComparedTable.of(loaded)
    return compare_table(
        compared.dsn,
        compared.table,
        compared.columns,
        compared.path,
        compared.names,
        compared.present,
    )


class ComparedTable(NamedTuple):
    """A database table and the target of the pipeline that captures it.

    Attributes:
        dsn: Connection string of the database.
        table: Name of the database table, ``schema.table``.
        columns: Its columns and their Spark SQL types.
        path: Folder of the target.
        names: Names in the database of columns that have others there.
        present: SQL condition of the target's rows that are compared.
    """

    dsn: str
    table: str
    columns: Mapping[str, str]
    path: Folder
    names: Mapping[str, str]
    present: str

    @classmethod
    def of(cls, loaded: LoadedPipeline) -> ComparedTable:
        """Return what a pipeline declares, with columns that its runs have followed.

        Raises:
            InputError: It captures no table.
            StateError: The declaration changed in a way that the checkpoint can't follow.
        """
        return _compared(loaded)


def _compared(loaded: LoadedPipeline) -> ComparedTable:
    if (context := PipelineContext.find(loaded)) is not None:
        # It knows the columns that were followed.
        loaded = context.loaded
    options, topic = _captured_table(loaded)
    table = topic.changes
    assert table is not None  # a `snapshot` before the topic needs it
    columns = table.current(topic.value_columns)
    return ComparedTable(
        options.dsn,
        table.table,
        {name: kind for name, kind in columns.items() if name not in table.dropped_columns},
        target_of(loaded),
        {name: table.name_in_table(name) for name in table.renamed_columns},
        _present(loaded.pipeline.sink),
    )


def _present(sink: Sink) -> str:
    """Return the SQL condition of the target's rows that the database has now."""
    conditions = []
    if sink.history is not None:
        conditions.append(f"{VALID_TO} IS NULL")
    if sink.deleted is not None and not sink.removes_rows:
        conditions.append(f"NOT coalesce({quoted(sink.deleted)}, false)")
    return " AND ".join(conditions) or "true"


def compare_table(
    dsn: str,
    table: str,
    columns: Mapping[str, str],
    path: Folder,
    names: Mapping[str, str] | None = None,
    present: str = "true",
) -> SourceComparison:
    """Compare a Delta table with a database table row by row, each row as often as it occurs.

    Args:
        dsn: Connection string of the database (:attr:`SnapshotOptions.dsn`).
        table: Name of the database table, ``schema.table``.
        columns: Its columns and their Spark SQL types; only those that the Delta table has are
            compared.
        path: Folder of the Delta table.
        names: Names in the database of columns that have others there.
        present: SQL condition of the Delta table's rows that are compared.

    Raises:
        InputError: There is no Delta table, or one of the two can't be read.
    """
    asked = ComparedTable(dsn, table, columns, path, names or {}, present)
    with compared_sides(asked) as (connection, compared):
        source, found = count_rows(connection, "source"), count_rows(connection, "target")
        counts, examples = {}, []
        for side in ("source", "target"):
            counts[side] = count_rows(connection, f"only_{side}")
            rows = connection.execute(
                f"SELECT to_json(r)::VARCHAR FROM only_{side} r ORDER BY ALL LIMIT {EXAMPLES}"
            ).fetchall()
            examples += [f"only in the {side}: {row[0]}" for row in rows]
    return SourceComparison(
        table=table,
        rows=source,
        found=found,
        only_in_source=counts["source"],
        only_in_target=counts["target"],
        examples=examples,
        columns=compared,
    )


class Condition(Protocol):
    """Condition of the rows that are compared, the same one for both sides."""

    def sql(self, name: str) -> str:
        """Return it as SQL, by the quoted name of the column that it is about."""

    @property
    def column(self) -> str:
        """The column, by its name in the target."""


@contextmanager
def compared_sides(
    asked: ComparedTable, where: Condition | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[str]]]:
    """Read a database table and a target into DuckDB, and find the rows that only one of them has.

    Args:
        asked: Both; only columns that the Delta table has are compared.
        where: Rows of both that are compared; all by default.

    Yields:
        The database with the tables ``source``, ``target``, ``only_source`` and ``only_target``,
        and the names of the columns in them.

    Raises:
        InputError: There is no Delta table, or one of the two can't be read.
    """
    dsn, table, columns, path, names, present = asked
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
        connection.create_function("canonical_json", canonical_json, ["VARCHAR"], "VARCHAR")
        there = {name: names.get(name, name) for name in compared}
        read = {there[name]: kind for name, kind in compared.items()}
        known = "true" if where is None else where.sql(quote_of(dsn)(there[where.column]))
        rows = _write_source(dsn, table, read, Path(scratch) / "source.csv", known)
        renamed = ", ".join(f"{quoted(old)} AS {quoted(new)}" for new, old in there.items())
        connection.execute(f"CREATE TABLE source AS SELECT {renamed} FROM ({rows})")
        if where is not None:
            present = f"({present}) AND {where.sql(quoted(where.column))}"
        _create_target(connection, compared, target, present)
        for side in ("source", "target"):
            sort_maps(connection, side)
        for one, other in (("source", "target"), ("target", "source")):
            connection.execute(
                f"CREATE TABLE only_{one} AS SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}"
            )
        yield connection, list(compared)


def _captured_table(loaded: LoadedPipeline) -> tuple[SnapshotOptions, KafkaSource]:
    """Return how to reach the database of the captured table, and the topic of its changes.

    Raises:
        InputError: No source of the pipeline declares a ``snapshot``.
    """
    for source in loaded.pipeline.sources:
        topic = loaded.pipeline.topic_after(source.name)
        if isinstance(source, FileSource) and source.snapshot is not None and topic is not None:
            return source.snapshot, topic
    message = (
        f"Pipeline `{loaded.pipeline.name}` captures no database table: none of its sources "
        "declares a `snapshot` and is followed by the topic of the table's changes."
    )
    hint = "Compare the target with the pipeline's raw input instead: `hybrid audit`."
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="snapshot")


def quote_of(dsn: str) -> Callable[[str], str]:
    """Return how names are quoted in the SQL of a database."""
    return in_backticks if kind_of(dsn) == "mariadb" else quoted


def bound_after(asked: ComparedTable, column: str, where: str, rows: int) -> str | None:
    """Return the value of a column so many rows of a database table further on; None at its end.

    Args:
        asked: The table.
        column: The column, by its name in the database.
        where: SQL condition of the rows that are walked over, in ascending order.
        rows: Number of rows.

    Raises:
        InputError: The table can't be read.
    """
    if kind_of(asked.dsn) == "mariadb":
        from orchestration.audit import mariadb_rows as mariadb  # noqa: PLC0415

        return mariadb.bound_after(asked.dsn, asked.table, column, where, rows)
    from orchestration.audit import postgres_rows as postgres  # noqa: PLC0415

    return postgres.bound_after(asked.dsn, asked.table, column, where, rows)


def _write_source(dsn: str, table: str, columns: Mapping[str, str], file: Path, where: str) -> str:
    """Write rows of a database table to a file, and return DuckDB's query that reads it."""
    # Each kind needs an extra of its own, so that only one of them may be there.
    if kind_of(dsn) == "mariadb":
        from orchestration.audit.mariadb_rows import write_rows  # noqa: PLC0415

        return write_rows(dsn, table, columns, file, where)
    from orchestration.audit.postgres_rows import write_rows as write_rows_of  # noqa: PLC0415

    return write_rows_of(dsn, table, columns, file, where)


def _create_target(
    connection: duckdb.DuckDBPyConnection,
    columns: Mapping[str, str],
    target: DeltaTable,
    present: str,
) -> None:
    """Create the DuckDB table ``target`` with the columns and types of the source."""
    types = {name: parse_type(kind) for name, kind in columns.items()}
    query = f"SELECT {column_list(columns)} FROM target WHERE {present}"
    connection.register("_target", query_rows(target, query))
    casts = [f"CAST({quoted(n)} AS {duckdb_type(k)}) AS {quoted(n)}" for n, k in types.items()]
    connection.execute(f"CREATE TABLE target AS SELECT {', '.join(casts)} FROM _target")
    connection.unregister("_target")
