"""Unchanged long values (TOAST) of an update, which PostgreSQL's log omits.

The column ``sink.unchanged`` of a change has these columns as the keys of a map. In the target the
map has, for each column whose value is older than the row's sequence, the sequence of the change
that the value is of; it is null where there is none. So each value is ordered by itself: the value
of the latest change that has one wins, whatever order the changes arrive in.

A text as the sequence of a value: null if no change delivered it, empty for a row of a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from sources.common.counting import counted
from sources.common.sql.sql_names import in_backticks
from sources.config.table.sink import Sink
from sources.errors import InputError
from sources.storage.folder import Folder
from spark_jobs.inside.sink.merging.clauses import of_source

_LONG = (StringType, BinaryType, ArrayType, MapType)
_AT = "__at"


def long_columns(columns: StructType, sink: Sink) -> list[str]:
    """Return the columns whose value may be missing in an update: texts, bytes, arrays, maps.

    None of key and sequence, nor ``sink.deleted`` and ``sink.unchanged``.
    """
    own = {*sink.key, *sink.order, sink.deleted, sink.unchanged}
    return [
        field.name
        for field in columns
        if isinstance(field.dataType, _LONG) and field.name not in own
    ]


def latest_values(batch: DataFrame, sink: Sink, row: Column, by: Column) -> DataFrame:
    """Return each key's last change, with the latest known value of each long column.

    One row for each key; ``sink.unchanged`` tells how old the values are that the last change
    lacks.

    Args:
        batch: Changes of one micro-batch.
        sink: The declaration of the sink, with ``unchanged``.
        row: Aggregate that returns the last change of a key as a struct.
        by: What orders the changes.
    """
    unchanged, columns = str(sink.unchanged), long_columns(batch.schema, sink)
    at = F.coalesce(F.col(in_backticks(sink.order[0])), F.lit(""))
    latest = [
        F.max_by(
            F.struct(F.col(in_backticks(name)).alias("value"), at.alias("at")),
            F.when(~_lacks(F.col(in_backticks(unchanged)), name), by),
        ).alias(f"{_AT}{number}")
        for number, name in enumerate(columns)
    ]
    found = batch.groupBy(*map(in_backticks, sink.key)).agg(row.alias("row"), *latest)
    values = {name: F.col(f"{_AT}{number}") for number, name in enumerate(columns)}
    is_older = [
        F.struct(F.lit(name).alias("key"), value["at"].alias("value"))
        for name, value in values.items()
    ]
    of_row = F.coalesce(F.col("row")[sink.order[0]], F.lit(""))
    # A key that is lacking stays known: such a change is refused.
    is_older += [
        F.struct(
            F.lit(name).alias("key"),
            F.when(~_lacks(F.col("row")[unchanged], name), of_row).alias("value"),
        )
        for name in sink.key
    ]
    entries = F.filter(
        F.array(*is_older), lambda each: each["value"].isNull() | (each["value"] < of_row)
    )
    made = {name: value["value"] for name, value in values.items()}
    made[unchanged] = F.when(F.size(entries) > 0, F.map_from_entries(entries))
    return found.select(*(made.get(name, F.col("row")[name]).alias(name) for name in batch.columns))


def require_key(rows: DataFrame, sink: Sink, count: int, target: Folder) -> None:
    """Refuse a micro-batch with changes that lack a value of the key, so that their row is unknown.

    Args:
        rows: Changes of a micro-batch; only the names of their columns are used.
        sink: The declaration of the sink.
        count: How many of them :func:`lacks_key` counted; 0 refuses nothing.
        target: The table's folder.

    Raises:
        InputError: There are such changes.
    """
    if not count:
        return
    message = (
        f"{counted(count, 'change lacks', 'changes lack')} the value of a column of `sink.key` "
        f"({', '.join(sink.key)}): it "
        "is too long to be in the log unless it changes, so the row is unknown. Nothing of the "
        "micro-batch was written."
    )
    hint = (
        "Run ALTER TABLE … REPLICA IDENTITY FULL in the database, take a new snapshot, and begin a "
        "new generation with it: `hybrid generation new P`."
    )
    raise InputError(message, hint, field="sink.key", table=target.url, value=rows.columns[0])


def lacks_key(sink: Sink) -> Column:
    """Return an aggregate: the number of changes that lack the value of a column of the key."""
    unchanged = F.col(in_backticks(str(sink.unchanged)))
    lacking = F.lit(False)
    for name in sink.key:
        lacking |= _lacks(unchanged, name)
    return F.count_if(lacking)


def _lacks(unchanged: Column, name: str) -> Column:
    return F.coalesce(F.map_contains_key(unchanged, F.lit(name)), F.lit(False))


class ValueByValue:
    """Assignments of a MERGE of change ``s`` into row ``t`` that order each value by itself.

    Args:
        columns: Names of all columns of the target.
        long: Those that a change may lack, as :func:`long_columns` returns them.
        sink: The declaration of the sink, with ``unchanged``.
    """

    def __init__(self, columns: Sequence[str], long: Sequence[str], sink: Sink) -> None:
        self._unchanged = str(sink.unchanged)
        self._sequence = sink.order[0]
        self._latest = {name: self._later_value(name) for name in long}
        entries = ", ".join(
            f"struct({_text(name)} AS key, greatest({self._at('s', name)}, {self._at('t', name)}) "
            "AS value)"
            for name in long
        )
        name = in_backticks(self._sequence)
        of_row = f"coalesce(greatest(s.{name}, t.{name}), '')"
        older = f"filter(array({entries}), e -> e.value IS NULL OR e.value < {of_row})"
        self._latest[self._unchanged] = (
            f"CASE WHEN size({older}) > 0 THEN map_from_entries({older}) END" if long else "NULL"
        )
        self._columns = list(columns)

    @property
    def of_newer(self) -> dict[str, str]:
        """Assignments for a change not older than the row: all columns but those it lacks."""
        return of_source(self._columns) | self._latest

    @property
    def of_older(self) -> dict[str, str]:
        """Assignments for a change that is older than the row: the columns that the row lacks."""
        return dict(self._latest)

    def _at(self, of: str, name: str) -> str:
        """Return SQL for the sequence of the value that a side has in a column."""
        kept = f"{of}.{in_backticks(self._unchanged)}"
        return (
            f"CASE WHEN coalesce(map_contains_key({kept}, {_text(name)}), false) "
            f"THEN {kept}[{_text(name)}] ELSE coalesce({of}.`{self._sequence}`, '') END"
        )

    def _later_value(self, name: str) -> str:
        is_newer = f"struct({self._at('s', name)}) >= struct({self._at('t', name)})"
        return f"CASE WHEN {is_newer} THEN s.{in_backticks(name)} ELSE t.{in_backticks(name)} END"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
