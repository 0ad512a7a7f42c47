"""Columns of a point-in-time join: key, time, ``known_at``; missing or of another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybrid_extensions.comparison.compared_tables import comparable_as
from sources.config.pipeline import Pipeline
from sources.config.table.known_at import KNOWN_AT, known_at_of
from sources.config.table.sink import VALID_TO
from sources.errors import InputError


@dataclass(frozen=True)
class JoinColumns:
    """Columns of a point-in-time join of labels with a table.

    Attributes:
        key: Columns of both sides by which rows belong to a label.
        time: Column of the labels: the time at which values have to be known.
        known_at: Column of the table: the time at which a row became known.
        ranks: Columns of the table that decide between rows of a key that became known at the same
            time: the highest is taken, by the first of them, then by the next.
        values: Columns of the table that a label gets, in order.
        deleted: Column of the table that is true in a row after which its key had no values; None
            if there is none.
    """

    key: list[str]
    time: str
    known_at: str
    ranks: list[str]
    values: list[str]
    deleted: str | None = None


@dataclass(frozen=True)
class Asked:
    """Columns that the user names for a join; None where the declaration decides.

    Attributes:
        key: Columns of both sides; by default those of ``sink.key`` that the labels have.
        time: Column of the labels; by default the one with the name of the event time.
        known_at: Column of the table; by default ``known_at``, or the event time if the table has
            no such column; ``valid_from`` of a table that keeps every version.
    """

    key: Sequence[str] | None = None
    time: str | None = None
    known_at: str | None = None


def join_columns(
    pipeline: Pipeline, asked: Asked, labels: Mapping[str, str], table: Mapping[str, str]
) -> JoinColumns:
    """Return the columns of the join, after checking them on both sides; a pure function.

    Args:
        pipeline: The pipeline.
        asked: The columns that the user names.
        labels: DuckDB types of the labels' columns, by name.
        table: DuckDB types of the table's columns, by name.

    Raises:
        InputError: A column is missing, has another type, or is in both tables.
    """
    event_time = pipeline.event_time.column
    time = asked.time or event_time
    _require("file of labels", labels, time, "--time")
    sink = pipeline.sink
    known_at = asked.known_at or known_at_of(pipeline, table)
    _require("table", table, known_at, "--known-at", ", or of a feed `keep: {known_at: COLUMN}`")
    times = (time, known_at)
    key = list(asked.key or [name for name in sink.key if name in labels and name not in times])
    if not key:
        message = (
            f"The labels have no column of `sink.key` ({', '.join(sink.key)}) besides the "
            f"time; they have {', '.join(labels)}."
        )
        hint = "Name the columns that labels and table share: `--key COLUMN`, once for each."
        raise InputError(message, hint, field="sink.key")
    for name in key:
        _require("file of labels", labels, name, "--key")
        _require("table", table, name, "--key")
        if comparable_as(labels[name]) != comparable_as(table[name]):
            kinds = f"{labels[name]} in the labels and {table[name]} in the table"
            message = f"Column `{name}` is {kinds}."
            hint = f"Cast `{name}` in the labels to {table[name]}."
            raise InputError(message, hint, column=name, value=labels[name])
    for side, columns, name in (("labels", labels, time), ("table", table, known_at)):
        if comparable_as(columns[name]) != "timestamp":
            message = f"Column `{name}` of the {side} is {columns[name]}, no timestamp."
            hint = "Name a column with timestamps, or cast it; times without a zone are UTC."
            raise InputError(message, hint, column=name, value=columns[name])
    # The end of a version is known only later.
    own = (*key, known_at, *([] if sink.history is None else [VALID_TO, sink.deleted]))
    values = [name for name in table if name not in own]
    for name in (*values, KNOWN_AT):
        if name in labels:
            message = (
                f"The labels have a column `{name}`, which is in no key, and which the training "
                "set gets from the table."
            )
            hint = (
                f"Rename `{name}` in the labels. If it identifies a row, name it and the other "
                f"columns of the key: `--key {name}`, once for each."
            )
            raise InputError(message, hint, column=name)
    ranks = [name for name in sink.key if name in values]
    deleted = None if sink.history is None else sink.deleted
    return JoinColumns(key, time, known_at, ranks, values, deleted)


def _require(side: str, columns: Mapping[str, str], name: str, option: str, more: str = "") -> None:
    if name not in columns:
        message = f"There is no column `{name}` in the {side}, which has {', '.join(columns)}."
        raise InputError(message, f"Name another one: `{option} COLUMN`{more}.", column=name)
