"""Keys of a MERGE: the condition that matches rows, and by which files of the target are skipped.

Delta skips files whose statistics show that they hold no row for a condition on the target
alone (https://docs.delta.io/latest/delta-update.html#performance-tuning). A join by key is no such
condition; the lowest and the highest key of the micro-batch are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.sql.sql_names import in_backticks
from sources.common.times import EPOCH
from spark_jobs.inside.sink.merging.clauses import column

_MS = 1000
# The years 1677 to 2262.
_NANOS_END_US = (2**63 - 1) // 1000


class Match(NamedTuple):
    """Condition that matches rows of a micro-batch with rows of the target by key.

    Attributes:
        condition: SQL on a row ``t`` of the target and a row ``s`` of the micro-batch.
        ranges: Lowest and highest value in the micro-batch by column: numbers as they are, days and
            microseconds since 1970; only columns whose range is known.
    """

    condition: str
    ranges: Mapping[str, tuple[int, int]]


def _moment(micros: int) -> str:
    # With its offset: an hour that comes twice in the session's time zone would be ambiguous.
    return f"TIMESTAMP'{(EPOCH + timedelta(microseconds=micros)).isoformat(sep=' ')}'"


def _day(days: int) -> str:
    return f"DATE'{date(1970, 1, 1) + timedelta(days=days)}'"


# By type: how to turn a column into an integer, and the integer into a literal.
_KINDS: dict[str, tuple[Callable[[Column], Column], Callable[[int], str]]] = {
    "tinyint": (lambda column: column, str),
    "smallint": (lambda column: column, str),
    "int": (lambda column: column, str),
    "bigint": (lambda column: column, str),
    "date": (F.unix_date, _day),
    "timestamp": (F.unix_micros, _moment),
}


class KeyRange:
    """Lowest and highest value of a micro-batch's key columns, by which MERGE skips files.

    Only columns of integers, dates and timestamps are used. Text is left out: random keys span the
    whole range.

    Args:
        rows: Rows of the micro-batch.
        key: Columns that identify a row.
    """

    def __init__(self, rows: DataFrame, key: Sequence[str]) -> None:
        self._key = list(key)
        kinds = {name: rows.schema[name].dataType.simpleString() for name in key}
        self._kinds = {name: _KINDS[kind] for name, kind in kinds.items() if kind in _KINDS}

    @property
    def limits(self) -> list[Column]:
        """Aggregates to compute over the micro-batch: lowest and highest value of each column used.

        Their values go to :meth:`match`; null for a column that has a null.
        """
        aggregates = []
        for name, (number, _) in self._kinds.items():
            column = number(F.col(in_backticks(name)))
            has_all = F.count_if(column.isNull()) == 0
            aggregates += [F.when(has_all, of(column)) for of in (F.min, F.max)]
        return aggregates

    def limits_of(self, rows: pa.Table) -> list[int | None]:
        """Return the values of the aggregates of :attr:`limits` for rows in memory.

        None for both limits of a column that has a null. None, too, without rows.
        """
        values: list[int | None] = []
        for name in self._kinds:
            column = rows[name]
            if column.null_count:
                values += [None, None]
                continue
            if pa.types.is_date(column.type):
                column = column.cast(pa.int32())
            found = pc.min_max(column.cast(pa.int64()))
            values += [found["min"].as_py(), found["max"].as_py()]
        return values

    def match(self, limits: Sequence[int | None]) -> Match:
        """Return the condition by which a MERGE matches rows of the batch with those of the target.

        Args:
            limits: Values of the aggregates of :attr:`limits`, in their order.

        Returns:
            Equality of all key columns, in which null equals null, and for each column with both
            limits a range on the target.
        """
        # In parentheses: Delta's Rust library takes AND for a part of the right side.
        parts = [
            f"({column('t', name)} IS NOT DISTINCT FROM {column('s', name)})" for name in self._key
        ]
        ranges = {}
        pairs = zip(limits[::2], limits[1::2], strict=True)
        for (name, (_, literal)), (low, high) in zip(self._kinds.items(), pairs, strict=True):
            if low is None or high is None:
                continue
            try:
                bounds = [
                    (bound, f"{column('t', name)} {sign} {literal(bound)}")
                    for sign, bound in ((">=", self._floor(name, low)), ("<=", high))
                ]
            except OverflowError:
                # A year beyond Python's range: then no file is skipped.
                continue
            parts += [text for bound, text in bounds if self._is_literal(name, bound)]
            ranges[name] = low, high
        return Match(" AND ".join(parts), ranges)

    def _is_literal(self, name: str, bound: int) -> bool:
        """Return whether a bound may be in the condition: one of times has nanoseconds in Rust."""
        is_time = self._kinds[name] is _KINDS["timestamp"]
        return not is_time or abs(bound) <= _NANOS_END_US

    def _floor(self, name: str, low: int) -> int:
        """Return the lowest value as files' statistics show it: of times, only milliseconds."""
        is_time = self._kinds[name] is _KINDS["timestamp"]
        # One more, as Delta's Rust library would skip a file whose highest time was cut off.
        return (low // _MS - 1) * _MS if is_time else low
