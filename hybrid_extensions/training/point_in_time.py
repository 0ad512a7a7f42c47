"""Point-in-time join: for each label, the last row of its key that was known at its time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from hybrid_extensions.comparison.compared_tables import (
    create_target_rows,
    open_target,
    require_own_rows,
)
from hybrid_extensions.comparison.duckdb_database import (
    INSTANT,
    MEMORY_LIMIT,
    columns_of,
    open_database,
)
from hybrid_extensions.training.columns import Asked, JoinColumns, join_columns
from orchestration.remedies import Remedy
from sources.common.counting import counted
from sources.common.sql.sql_names import column_list, quoted
from sources.config.loader import LoadedPipeline
from sources.config.table.known_at import KNOWN_AT
from sources.config.table.sink import VALID_FROM, VALID_TO
from sources.errors import InputError, StateError
from sources.planning.transform_analysis import read_analysis
from sources.serving import target_of

_TABLE = "audit.features"
LABELS = "labels"
"""Table or view of the database with the labels."""
NUMBER = "_hybrid_row"
"""Column of the labels with their number, by which the rows of the join are ordered."""


@dataclass(frozen=True)
class TrainingSet:
    """Labels with the values that were known at their times.

    Attributes:
        rows: All labels in their order, with their columns, the values, and ``known_at``: when the
            row with the values became known; null where nothing was known.
        known: Number of labels for which something was known.
        notes: Sentences about values that may have been known only later; empty if there are none.
    """

    rows: pa.Table
    known: int
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JoinedLabels:
    """Join of labels with what was known at their times.

    Attributes:
        query: Query of the joined rows: the labels' columns but their number, the values, and
            ``known_at``; in the order of the numbers.
        values: DuckDB types of the values, by column.
        known_at: Column of the table from whose time on a row counts as known.
        notes: Sentences about values that may have been known only later; empty if there are none.
    """

    query: str
    values: dict[str, str]
    known_at: str
    notes: list[str]


def training_set(
    loaded: LoadedPipeline, labels: pa.Table, asked: Asked | None = None
) -> TrainingSet:
    """Return labels with the values of a pipeline's table that were known at their times.

    A label gets the values of the row with its key that became known last, at its time or before
    it. Of several that became known at the same time it is the one with the highest remaining
    columns of ``sink.key``, such as the latest window. Rows without a time are never known, and a
    null in the key of a label matches no row. DuckDB reads the Delta table as it is now; Spark
    takes no part in it.

    Args:
        loaded: The pipeline; its table is that of the generation that it is about.
        labels: The labels. Times without a zone are UTC.
        asked: The columns to join by, where they are not those that the declaration suggests.

    Raises:
        InputError: The table holds the latest value of each key only (``sink.mode: merge`` without
            ``history``); a column is missing, of another type, or on both sides; or the table can't
            be read.
        StateError: There is no table yet, or the state is damaged.
        UnavailableError: The store of the table or of the state does not answer.
    """
    with _database() as connection:
        numbers = pa.array(np.arange(len(labels)), pa.int64())
        connection.register(LABELS, labels.append_column(NUMBER, numbers))
        joined = join_labels(connection, loaded, asked)
        rows = connection.sql(joined.query).to_arrow_table()
    found = len(rows) - rows[KNOWN_AT].null_count
    return TrainingSet(rows, found, joined.notes)


def join_labels(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, asked: Asked | None = None
) -> JoinedLabels:
    """Return the query that joins labels with the values that were known at their times.

    The rows of the pipeline's table are copied into the database.

    Args:
        connection: A database, with the labels in the table or view :data:`LABELS`, which have
            their number in the column :data:`NUMBER`.
        loaded: The pipeline; its table is that of the generation that it is about.
        asked: The columns to join by, where they are not those that the declaration suggests.

    Raises:
        InputError, StateError, UnavailableError: As :func:`training_set`.
    """
    table = open_history(loaded)
    given = columns_of(connection, LABELS)
    del given[NUMBER]
    names = [each.name for each in table.schema().fields]
    create_target_rows(connection, "features", table, names)
    kinds = columns_of(connection, _TABLE)
    columns = join_columns(loaded.pipeline, asked or Asked(), given, kinds)
    if loaded.pipeline.sink.history is not None:
        # Another version took the place of these at their own time.
        ended = f"{VALID_TO} <= {VALID_FROM}"
        connection.execute(f"DELETE FROM {_TABLE} WHERE {ended}")
    without = _count(connection, f"{_TABLE} WHERE {quoted(columns.known_at)} IS NULL")
    notes = [*_notes(loaded, columns), *_unknown(without, columns)]
    values = {name: kinds[name] for name in columns.values}
    return JoinedLabels(_query(columns, list(given)), values, columns.known_at, notes)


def read_labels(path: Path) -> pa.Table:
    """Return the labels in a Parquet file.

    Raises:
        InputError: The file can't be read as Parquet.
    """
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip().removesuffix(".")
        message = f"The labels {path} can't be read as Parquet: {reason}."
        hint = "Name a Parquet file with the key, the time and the label of each row."
        raise InputError(message, hint, file=str(path)) from None


def write_rows(made: TrainingSet, path: Path) -> None:
    """Write a training set as a Parquet file; an existing one is replaced as a whole.

    After a failure an existing file is as it was.

    Raises:
        InputError: The file can't be written.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        pq.write_table(made.rows, part)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        reason = os.strerror(error.errno) if error.errno else error
        message = f"The training set can't be written to {path}: {reason}."
        hint = "Name a file in a folder that exists and can be written, on a disk with free space."
        raise InputError(message, hint, file=str(path)) from None


def require_history(loaded: LoadedPipeline) -> None:
    """Refuse a pipeline whose table holds the latest value of each key only.

    Raises:
        InputError: The sink merges rows, and keeps no history of them.
    """
    sink = loaded.pipeline.sink
    if sink.mode == "append" or sink.history is not None:
        return
    message = (
        f"The table of pipeline `{loaded.pipeline.name}` holds the latest value of each key only "
        f"(`sink.mode: {sink.mode}`): what was known before is overwritten. Older versions of the "
        "Delta table do not tell it: history is written in a few commits, whatever its times, and "
        "VACUUM deletes them."
    )
    hint = (
        "Keep every version: `sink.history`, the column with the time of a change. Or declare a "
        "pipeline with `sink.mode: append` for training: a transform without aggregates, "
        "or windows with a watermark, each of which is appended once it is final. Let it compute "
        "`known_at`."
    )
    raise InputError(message, hint, pipeline=loaded.pipeline.name, field="sink.mode")


def open_history(loaded: LoadedPipeline) -> DeltaTable:
    """Open the newest version of a pipeline's table, which has to keep what was known at each time.

    Raises:
        InputError, StateError, UnavailableError: As :func:`training_set`.
    """
    require_history(loaded)
    require_own_rows(loaded)
    folder = target_of(loaded)
    if (table := open_target(folder)) is None:
        name = loaded.pipeline.name
        message = f"There is no table {folder} of pipeline `{name}` yet."
        # The declaration may be a kept copy, and the pipeline another one than the command's.
        file = Path(loaded.folder, loaded.path.name).as_posix()
        hint = f"Run the pipeline first: {Remedy('run').command(file)}."
        raise StateError(message, hint, pipeline=name, table=folder.url)
    return table


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    with (
        TemporaryDirectory(prefix="hybrid-training-") as scratch,
        open_database(Path(scratch), MEMORY_LIMIT) as connection,
    ):
        yield connection


def _query(columns: JoinColumns, labels: list[str]) -> str:
    """Return the query of the join."""
    known_at = f"CAST({quoted(columns.known_at)} AS {INSTANT})"
    ranks = "".join(f", {quoted(name)} DESC NULLS LAST" for name in columns.ranks)
    # ASOF takes any of several rows with the same time.
    rows = (
        f"SELECT *, {known_at} AS _hybrid_known_at FROM {_TABLE} WHERE {known_at} IS NOT NULL "
        f"QUALIFY row_number() OVER (PARTITION BY {column_list(columns.key)}, {known_at} "
        f"ORDER BY true{ranks}) = 1"
    )
    given = f"SELECT *, CAST({quoted(columns.time)} AS {INSTANT}) AS _hybrid_time FROM {LABELS}"
    on = " AND ".join(f"l.{quoted(name)} = f.{quoted(name)}" for name in columns.key)
    selected = [f"l.{quoted(name)}" for name in labels]
    of_row = {name: f"f.{quoted(name)}" for name in columns.values}
    of_row[KNOWN_AT] = "f._hybrid_known_at"
    if columns.deleted is not None:
        is_there = f"NOT coalesce(f.{quoted(columns.deleted)}, false)"
        of_row = {name: f"CASE WHEN {is_there} THEN {value} END" for name, value in of_row.items()}
    selected += [f"{value} AS {quoted(name)}" for name, value in of_row.items()]
    return (
        f"SELECT {', '.join(selected)} FROM ({given}) AS l ASOF LEFT JOIN ({rows}) AS f "
        f"ON {on} AND l._hybrid_time >= f._hybrid_known_at ORDER BY l.{NUMBER}"
    )


def _notes(loaded: LoadedPipeline, columns: JoinColumns) -> list[str]:
    """Return what the values may contain that was not known at the time."""
    notes = []
    if columns.known_at == loaded.pipeline.event_time.column:
        notes.append(
            f"A row counts as known at its event time, `{columns.known_at}`, although it arrived "
            f"later. Let the transform compute `{KNOWN_AT}`, or name a column: `--known-at`."
        )
    generation = loaded.open_generation(create=False)
    analysis = None if generation is None else read_analysis(generation)
    by_time = [each.name for each in loaded.pipeline.bounded_files if each.arrival is None]
    if analysis is not None and analysis.stateful and by_time:
        notes.append(
            f"`{by_time[0]}` was read in order of event time, in which rows that came late count "
            "as if on time: what is computed from several rows may contain some that were not "
            "known yet. Declare `order: {arrival: …}` for it."
        )
    return notes


def _unknown(rows: int, columns: JoinColumns) -> list[str]:
    if not rows:
        return []
    left_out = counted(rows, "row of the table has", "rows of the table have")
    return [f"{left_out} no `{columns.known_at}`, and so is never known."]


def _count(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchall()[0][0])
