"""Labels of a training set: without a time, out of the ranges or there twice they are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from hybrid_extensions.comparison.compared_tables import comparable_as, open_target
from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import columns_of, error_text
from hybrid_extensions.training.sets.declare import LABEL_RANGE, DeclaredSet
from hybrid_extensions.training.sets.label_ranges import begin_of, key_sql
from sources.common.counting import counted, counted_as
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.config.loader import LoadedPipeline
from sources.errors import InputError

LABELS = "labels"
"""View of all labels, with the column of their range."""
_ALL = "all_labels"


@dataclass(frozen=True)
class Fingerprint:
    """Number of the labels of a range, and a digest of their rows in any order."""

    rows: int
    digest: str


def open_labels(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, declared: DeclaredSet
) -> dict[str, str]:
    """Create the view :data:`LABELS`, and return the DuckDB types of its columns except the range.

    Args:
        connection: A database.
        loaded: The pipeline that declares the set.
        declared: The set.

    Raises:
        InputError: There are no labels, they can't be read, or lack a column.
        UnavailableError: Their store does not answer.
    """
    labels = declared.labels
    source = _source(connection, loaded, declared)
    columns = columns_of(connection, f"SELECT * FROM {source}")
    for field, name in (("time", labels.time), *(("key", each) for each in labels.key)):
        if name not in columns:
            message = (
                f"There is no column `{name}` in the labels {labels.path}, which have "
                f"{', '.join(columns)}."
            )
            hint = f"Correct `labels.{field}` of training set `{declared.name}`."
            raise InputError(message, hint, column=name, field="training_sets")
    if comparable_as(columns[labels.time]) != "timestamp":
        message = (
            f"Column `{labels.time}` of the labels {labels.path} is {columns[labels.time]}, no "
            "timestamp."
        )
        hint = "Name a column with timestamps in `labels.time`, or cast it."
        raise InputError(message, hint, column=labels.time, field="training_sets")
    if LABEL_RANGE in columns:
        message = (
            f"The labels {labels.path} have a column `{LABEL_RANGE}`, the name of the set's own "
            "column with the range of a label."
        )
        raise InputError(message, f"Rename `{LABEL_RANGE}` in the labels.", column=LABEL_RANGE)
    connection.execute(
        f"CREATE VIEW {LABELS} AS SELECT *, {key_sql(labels)} AS {LABEL_RANGE} FROM {source}"
    )
    return columns


def fingerprints(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str]
) -> dict[str | None, Fingerprint]:
    """Return number and digest of the labels of each range, by the range's key.

    Labels without a time are under the key None. Empty without labels.

    Args:
        connection: The database.
        table: :data:`LABELS`, or a table of some of its rows.
        columns: The labels' columns, with their types.

    Raises:
        InputError: The labels can't be read.
    """
    row = f"hash(row({column_list(list(columns))}), {literal(str(dict(columns)))})"
    query = (
        f"SELECT {LABEL_RANGE}, count(*), sum({row}::HUGEINT) FROM {table} GROUP BY 1 ORDER BY 1"
    )
    try:
        found = connection.execute(query).fetchall()
    except duckdb.Error as error:
        message = f"The labels can't be read: {error_text(error)}"
        raise InputError(
            message, "Restore the files of the labels, then compute the set again."
        ) from None
    return {key: Fingerprint(rows, f"{rows}:{digest}") for key, rows, digest in found}


def require_in_ranges(
    declared: DeclaredSet, found: Mapping[str | None, Fingerprint]
) -> dict[str, Fingerprint]:
    """Return the fingerprints; refuse labels without a time, or outside of the declared ranges.

    Raises:
        InputError: There are some; says how many, and of which range the first one is.
    """
    labels = declared.labels
    if (without := found.get(None)) is not None:
        has = counted_as(without.rows, "has", "have")
        message = f"{counted(without.rows, 'label')} of {labels.path} {has} no `{labels.time}`."
        hint = "Leave them out, or name another column in `labels.time`; then compute again."
        raise InputError(message, hint, column=labels.time)
    outside = [
        key
        for key in found
        if key is not None
        and (
            begin_of(labels, key).date() < labels.start
            or (labels.end is not None and begin_of(labels, key).date() >= labels.end)
        )
    ]
    if outside:
        until = "" if labels.end is None else f", and before {labels.end}"
        rows = sum(found[key].rows for key in outside)
        message = (
            f"{counted(rows, 'label')} of {labels.path} {counted_as(rows, 'is', 'are')} outside of "
            "the declared ranges, from "
            f"{labels.start} on{until}: the first one is in {outside[0]}, the last one in "
            f"{outside[-1]}."
        )
        hint = (
            f"Correct `labels.start` or `labels.end` of training set `{declared.name}`, or leave "
            "these labels out."
        )
        raise InputError(message, hint, field="training_sets", value=outside[0])
    return {key: each for key, each in found.items() if key is not None}


def require_unique(
    connection: duckdb.DuckDBPyConnection, declared: DeclaredSet, table: str
) -> None:
    """Refuse labels of which two have the same key and time.

    Raises:
        InputError: There are some; says how many, and names one.
    """
    names = [*declared.labels.key, declared.labels.time]
    twice = f"SELECT {column_list(names)}, count(*) AS n FROM {table} GROUP BY ALL HAVING n > 1"
    count, *_ = connection.execute(f"SELECT count(*) FROM ({twice})").fetchall()[0]
    if not count:
        return
    row = connection.execute(f"{twice} ORDER BY ALL LIMIT 1").fetchall()[0]
    shown = ", ".join(f"{name}={value}" for name, value in zip(names, row, strict=False))
    pairs = counted(count - 1, "other pair")
    others = f" The same holds for {pairs} of key and time." if count > 1 else ""
    message = (
        f"{row[-1]:,} labels of {declared.labels.path} have the same key and time, {shown}."
        f"{others} Nothing was written."
    )
    hint = (
        "Leave all but one of them out, or name the columns that tell them apart in `labels.key` "
        f"of training set `{declared.name}`; then compute it again."
    )
    raise InputError(message, hint, field="training_sets", value=shown)


def in_ranges(keys: Sequence[str]) -> str:
    """Return the SQL condition of rows that are in some ranges, of which there is one at least."""
    return f"{quoted(LABEL_RANGE)} IN ({', '.join(literal(each) for each in keys)})"


def _source(
    connection: duckdb.DuckDBPyConnection, loaded: LoadedPipeline, declared: DeclaredSet
) -> str:
    """Return what labels are selected from; those of a Delta table are copied first."""
    path = declared.labels.path
    folder = loaded.place(path)
    may_be_table = not folder.is_local or folder.root.is_dir()
    if may_be_table and (table := open_target(folder)) is not None:
        copy_rows(connection, _ALL, table, "SELECT * FROM target")
        return _ALL
    if not folder.is_local:
        message = f"The labels {path} of training set `{declared.name}` are no Delta table."
        hint = (
            "Correct `labels.path`, or write them as a Delta table, or as Parquet files on this "
            "machine."
        )
        raise InputError(message, hint, file=path)
    source = f"read_parquet({literal(path)}, union_by_name = true)"
    try:
        columns_of(connection, f"SELECT * FROM {source}")
    except duckdb.Error as error:
        message = (
            f"The labels {path} of training set `{declared.name}` can't be read: "
            f"{error_text(error)}"
        )
        hint = "Name Parquet files, or the folder of a Delta table, in `labels.path`."
        raise InputError(message, hint, file=path) from None
    return source
