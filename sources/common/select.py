"""A source's ``select``: SQL expressions that map its columns to the common ones.

Spark evaluates them. Their types must be known without Spark, before anything runs: that of a
plain column, of an outermost ``CAST``, or of the functions that turn numbers into instants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from sources.common.schema import TIMESTAMP, parse_type
from sources.errors import InputError

# https://spark.apache.org/docs/latest/api/sql/#timestamp_seconds; microseconds in a unit
_INSTANTS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}


class EventColumn(NamedTuple):
    """The column of a file that holds the event time.

    Attributes:
        name: As the file has it.
        unit_us: Microseconds in its unit if it holds integers; None if it holds timestamps.
    """

    name: str
    unit_us: int | None


@dataclass(frozen=True)
class Selection:
    """The expressions of one source.

    Attributes:
        source: Its name, for messages.
        expressions: By column; empty if the source's columns are taken as they are.
    """

    source: str
    expressions: Mapping[str, str]

    def columns(self, read: pa.Schema) -> pa.Schema:
        """The columns that come out.

        Args:
            read: Those that the source has.

        Raises:
            InputError: An expression names a column that is not there, is not made row by row, or
                does not tell its type.
        """
        if not self.expressions:
            return read
        return pa.schema([(name, self._type(name, read)) for name in self.expressions])

    def event_column(self, event_time: str) -> EventColumn | None:
        """The column whose statistics tell the range of event times; None if none does."""
        if not self.expressions:
            return EventColumn(event_time, None)
        tree = self._trees.get(event_time)
        if tree is not None and _is_plain(tree):
            return EventColumn(tree.name, None)
        if (unit := _unit(tree)) is not None and _is_plain(_argument(tree)):
            return EventColumn(_argument(tree).name, unit)
        return None

    def inputs(self, name: str) -> set[str]:
        """The columns of the source that one column is made of."""
        if not self.expressions:
            return {name}
        return {column.parts[0].name for column in self._trees[name].find_all(exp.Column)}

    def evaluate(self, name: str, batch: pa.RecordBatch) -> pa.ChunkedArray:
        """One column of a sample, evaluated without Spark.

        Raises:
            InputError: DuckDB has no such function, or a value does not fit.
        """
        if not self.expressions:
            return pa.chunked_array([batch[name]])
        tree = self._trees[name]
        if _is_plain(tree):
            return pa.chunked_array([batch[tree.name]])
        # It takes a while to import; most sources need none of it.
        import duckdb  # noqa: PLC0415

        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("sample", pa.Table.from_batches([batch]))
            try:
                table = connection.sql(f"SELECT {self.duckdb(name)} AS x FROM sample")
                values: pa.ChunkedArray = table.to_arrow_table().column(0)
            except duckdb.Error as error:
                message = f"Source `{self.source}`: `select.{name}` can't be evaluated: {error}"
                raise InputError(message, "Correct it, or the data.") from None
        return values

    def duckdb(self, name: str) -> str:
        """An expression as DuckDB writes it."""
        return self._trees[name].transform(_without_instants).transform(_decoded).sql("duckdb")

    @cached_property
    def _trees(self) -> dict[str, exp.Expr]:
        trees = {}
        for name, text in self.expressions.items():
            try:
                trees[name] = _parse(text)
            except SqlglotError as error:
                first = str(error).splitlines()[0]
                message = f"Source `{self.source}`: `select.{name}: {text}` is no SQL: {first}"
                raise InputError(message, "Write an expression of Spark SQL.") from None
        return trees

    def _type(self, name: str, read: pa.Schema) -> pa.DataType:
        tree = self._trees[name]
        where = f"Source `{self.source}`: `select.{name}: {self.expressions[name]}`"
        if tree.find(exp.AggFunc, exp.Window, exp.Query, exp.Star, exp.Explode) is not None:
            message = f"{where} is not made row by row."
            raise InputError(message, "Leave that to the transform.")
        for column in tree.find_all(exp.Column):
            # Of a field of a struct, the struct.
            first = column.parts[0].name
            if first not in read.names:
                message = f"{where} names a column `{first}` that is not there."
                raise InputError(message, f"There are {', '.join(read.names)}.")
        if _is_plain(tree):
            return read.field(tree.name).type
        if _unit(tree) is not None:
            return TIMESTAMP
        if isinstance(tree, exp.Cast):
            return parse_type(tree.to.sql("spark"))
        message = f"{where} does not tell its type."
        raise InputError(message, "Write CAST(… AS <type>) around it.")


@cache
def _parse(text: str) -> exp.Expr:
    """An expression; each is looked at many times while planning."""
    return parse_one(text, read="spark")


def _is_plain(tree: exp.Expr) -> bool:
    """Whether it is a column and nothing else."""
    return isinstance(tree, exp.Column) and len(tree.parts) == 1


def _unit(tree: exp.Expr | None) -> int | None:
    if isinstance(tree, exp.Anonymous) and len(tree.expressions) == 1:
        return _INSTANTS.get(tree.name.lower())
    return None


def _argument(tree: exp.Expr | None) -> exp.Expr:
    assert isinstance(tree, exp.Anonymous)
    argument: exp.Expr = tree.expressions[0]
    return argument


def _decoded(tree: exp.Expr) -> exp.Expr:
    """Bytes as text: Spark takes them for UTF-8, a cast of DuckDB's shows them."""
    if not isinstance(tree, exp.Cast) or not tree.to.is_type("text"):
        return tree
    value = tree.this.transform(_decoded).sql("duckdb")
    text = (
        f"(CASE WHEN typeof({value}) = 'BLOB' THEN TRY(decode(TRY_CAST({value} AS BLOB))) "
        f"ELSE TRY_CAST({value} AS TEXT) END)"
    )
    return parse_one(text, read="duckdb")


def _without_instants(tree: exp.Expr) -> exp.Expr:
    """DuckDB's own way from a number to an instant."""
    unit = _unit(tree)
    if unit is None:
        return tree
    micros = f"CAST(({_argument(tree).sql('duckdb')}) * {unit} AS BIGINT)"
    return parse_one(f"make_timestamptz({micros})", read="duckdb")
