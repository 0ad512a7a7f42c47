"""Sweep over ranges of labels: point-in-time joins in which each feature row is read once.

Ranges are joined in the order of time. What is known of each key before a range is carried along,
so that a join needs these rows and those of the range only. DuckDB spills all of it to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb

from hybrid_extensions.comparison.copied_rows import copy_rows
from hybrid_extensions.comparison.duckdb_database import INSTANT
from hybrid_extensions.training.sets.declare import LABEL_RANGE, DeclaredSet
from hybrid_extensions.training.sets.feature_table import FeatureTable
from hybrid_extensions.training.sets.label_ranges import begin_of, end_of
from hybrid_extensions.training.sets.opened_labels import in_ranges
from sources.common.sql.sql_names import column_list, literal, quoted

_SINCE = "_hybrid_since"


@dataclass(frozen=True)
class _Rows:
    """Rows of a feature table in the database, and how far they were read.

    Attributes:
        table: The feature table.
        number: Number of the table, in the names of what the database has of it.
    """

    table: FeatureTable
    number: int

    @property
    def all(self) -> str:
        """Table with all rows."""
        return f"features_{self.number}"

    @property
    def carried(self) -> str:
        """Table with the last row of each key before the present ranges."""
        return f"carried_{self.number}"

    @property
    def known(self) -> str:
        """Table with the carried rows, and those that become known within the ranges."""
        return f"known_{self.number}"


class Sweep:
    """Joins of ranges of labels with some feature tables, in the order of time.

    Args:
        connection: The database.
        declared: The set.
        base: Table of the rows to join: labels, with the features that are not joined.
        features: All feature tables of the set.
        joined: Names of those that are joined; columns of the others are in ``base``.
        labels: Names of the labels' columns.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        declared: DeclaredSet,
        base: str,
        features: Sequence[FeatureTable],
        joined: Sequence[str],
        labels: Sequence[str],
    ) -> None:
        self._connection, self._declared, self._base = connection, declared, base
        self._features, self._labels = features, labels
        self._rows = [_Rows(each, n) for n, each in enumerate(features) if each.name in joined]
        self._read_until: datetime | None = None

    def load(self) -> None:
        """Copy the feature tables into the database.

        Raises:
            InputError: A file of a table is missing or can't be read.
            UnavailableError: The login to a store has expired.
        """
        for each in self._rows:
            self._load(each)

    def query(self, ranges: Sequence[str]) -> str:
        """Prepare the join of some ranges, and return its query, whose rows are in order of time.

        Called after :meth:`load`. The query holds until the next call, whose ranges have to be
        later ones.

        Args:
            ranges: Keys of the ranges, in order, at least one.
        """
        begin = begin_of(self._declared.labels, ranges[0])
        end = end_of(self._declared.labels, ranges[-1])
        for each in self._rows:
            self._advance(each, begin, end)
        self._read_until = begin
        return self._join(ranges)

    def close(self) -> None:
        """Drop the copies of the feature tables from the database."""
        for each in self._rows:
            for name in (each.all, each.carried, each.known):
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    def _load(self, rows: _Rows) -> None:
        table = rows.table
        since = f"CAST({quoted(table.known_at)} AS {INSTANT})"
        wanted = [quoted(table.known_at), *(quoted(name) for name in table.key)]
        query = (
            f"SELECT {column_list(table.read)} FROM target "
            f"WHERE {' AND '.join(f'{name} IS NOT NULL' for name in wanted)}"
        )
        if table.valid_to is not None:
            valid = f"{quoted(table.valid_to)} > {quoted(table.known_at)}"
            query += f" AND ({quoted(table.valid_to)} IS NULL OR {valid})"
        copy_rows(self._connection, rows.all, table.opened, query, f"*, {since} AS {_SINCE}")
        self._connection.execute(f"CREATE TABLE {rows.carried} AS FROM {rows.all} LIMIT 0")
        key = f"{column_list(table.key)}, {_SINCE}"
        ties = f"SELECT 1 FROM {rows.all} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
        if not self._connection.execute(ties).fetchall():
            return
        # ASOF takes any of several rows with the same time.
        order = list(dict.fromkeys([*table.ranks, *table.declared.columns]))
        last = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in order)
        self._connection.execute(
            f"CREATE TABLE {rows.known} AS FROM {rows.all} "
            f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {last}) = 1"
        )
        self._connection.execute(f"DROP TABLE {rows.all}")
        self._connection.execute(f"ALTER TABLE {rows.known} RENAME TO {rows.all}")

    def _advance(self, rows: _Rows, begin: datetime, end: datetime) -> None:
        """Carry the last row of each key before ``begin``, and find those known until ``end``."""
        since = "true" if self._read_until is None else f"{_SINCE} >= {_time(self._read_until)}"
        key = column_list(rows.table.key)
        before = f"FROM {rows.all} WHERE {since} AND {_SINCE} < {_time(begin)}"
        earlier = f"(FROM {rows.carried} UNION ALL {before})"
        last = f"SELECT {key}, max({_SINCE}) AS {_SINCE} FROM {earlier} GROUP BY {key}"
        statements = [
            f"CREATE TABLE next_carried AS SELECT e.* FROM {earlier} AS e "
            f"SEMI JOIN ({last}) AS l USING ({key}, {_SINCE})",
            f"DROP TABLE {rows.carried}",
            f"ALTER TABLE next_carried RENAME TO {rows.carried}",
            f"CREATE OR REPLACE TABLE {rows.known} AS FROM {rows.carried} UNION ALL "
            f"FROM {rows.all} WHERE {_SINCE} >= {_time(begin)} AND {_SINCE} < {_time(end)}",
        ]
        for each in statements:
            self._connection.execute(each)

    def _join(self, ranges: Sequence[str]) -> str:
        time = f"CAST({quoted(self._declared.labels.time)} AS {INSTANT})"
        query = f"(SELECT *, {time} AS _hybrid_time FROM {self._base} WHERE {in_ranges(ranges)}) l"
        by_name = {each.table.name: each for each in self._rows}
        selected = [f"l.{quoted(name)}" for name in self._labels]
        for table in self._features:
            if (rows := by_name.get(table.name)) is None:
                selected += [f"l.{quoted(name)}" for name in table.made]
                continue
            side = f"r{rows.number}"
            on = " AND ".join(f"l.{quoted(name)} = {side}.{quoted(name)}" for name in table.key)
            query += (
                f" ASOF LEFT JOIN {rows.known} {side} ON {on} AND l._hybrid_time >= {side}.{_SINCE}"
            )
            selected += _values(table, side)
        range_ = f"l.{quoted(LABEL_RANGE)}"
        return (
            f"SELECT {', '.join(selected)}, {range_} FROM {query} ORDER BY {range_}, l._hybrid_time"
        )


def _values(table: FeatureTable, side: str) -> list[str]:
    """Return what is selected of a joined row, with the names that it gets in the set."""
    of_row = [f"{side}.{quoted(each)}" for each in table.declared.columns] + [f"{side}.{_SINCE}"]
    conditions = []
    if table.deleted is not None:
        conditions.append(f"NOT coalesce({side}.{quoted(table.deleted)}, false)")
    if table.valid_to is not None:
        until = f"CAST({side}.{quoted(table.valid_to)} AS {INSTANT})"
        conditions.append(f"({until} IS NULL OR {until} > l._hybrid_time)")
    if conditions:
        is_valid = " AND ".join(conditions)
        of_row = [f"CASE WHEN {is_valid} THEN {each} END" for each in of_row]
    return [f"{each} AS {quoted(name)}" for each, name in zip(of_row, table.made, strict=True)]


def _time(moment: datetime) -> str:
    return f"{literal(moment.isoformat())}::{INSTANT}"
