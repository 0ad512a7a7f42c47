"""Evaluation of expressions by Spark and by DuckDB: what each row makes, or that it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession

from sources.common.sql.engine import SETTINGS
from sources.common.sql.proven_expressions import Proven, undecided_value


class Failed(NamedTuple):
    """An error in place of a value.

    Attributes:
        text: The error.
        is_undecided: Whether DuckDB leaves the value to Spark.
        is_early: Whether Spark computes what failed before the expression, needed or not.
    """

    text: str
    is_undecided: bool = False
    is_early: bool = False


Outcomes = list[Any]
"""Values of the rows in a form that loses nothing, or :class:`Failed`."""


# What Python has no value of, in Spark: texts as bytes, times as numbers.
_PLAIN = {
    "string": "CAST({} AS BINARY)",
    "timestamp": "unix_micros({})",
    "date": "unix_date({})",
}


def _exact(value: Any) -> Any:
    """A value that is equal to no other one: zero has a sign, and nothing equals NaN."""
    if isinstance(value, bytearray):
        return bytes(value)
    return repr(value) if isinstance(value, float) else value


def plain(values: pa.ChunkedArray) -> Outcomes:
    """Values as what compares exactly: bytes of texts, numbers of times, all digits of numbers."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.cast(pa.large_binary())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return [_exact(each) for each in values.to_pylist()]


def _outcome(tried: Any) -> Any:
    """The value in what Spark's `TryEval` returned; a failure for null."""
    return Failed("") if tried is None else _exact(tried["x"])


class SparkRows:
    """Spark over a table.

    Args:
        spark: The session.
        table: Rows with their number as `id`.
    """

    def __init__(self, spark: SparkSession, table: pa.Table) -> None:
        self._spark, self._table = spark, table
        # Small tables are evaluated while the query is planned, without a job.
        self._rows = spark.createDataFrame(table)

    def types(self, expressions: Sequence[str]) -> list[str]:
        """Spark's types of expressions."""
        selected = [f"({text}\n) AS x{number}" for number, text in enumerate(expressions)]
        schema = self._rows.selectExpr(*selected).schema
        return [field.dataType.simpleString() for field in schema]

    def outcomes(self, expressions: Sequence[str]) -> dict[str, Outcomes]:
        """Outcomes of the rows by expression, by one query."""
        kinds = self.types(expressions)
        columns = [
            self._tried(_PLAIN.get(kind, "{}").format(f"({text}\n)"))
            for kind, text in zip(kinds, expressions, strict=True)
        ]
        try:
            rows = self._rows.select("id", *columns).sort("id").collect()
        except PySparkException:
            return self._one_by_one(expressions, columns)
        return {
            text: [_outcome(row[number]) for row in rows]
            for number, text in enumerate(expressions, 1)
        }

    def _one_by_one(
        self, expressions: Sequence[str], columns: Sequence[Column]
    ) -> dict[str, Outcomes]:
        """Outcomes where Spark moved a part out of its `TryEval`, as BETWEEN and nullif have it."""
        if len(expressions) > 1:
            half = len(expressions) // 2
            parts = (expressions[:half], expressions[half:])
            return {text: found for part in parts for text, found in self.outcomes(part).items()}
        found: Outcomes = []
        # A filter may come after the part.
        for number in range(len(self._table)):
            row = self._spark.createDataFrame(self._table.take([number]))
            try:
                found += [_outcome(own[0]) for own in row.select(*columns).collect()]
            except PySparkException as error:
                found.append(Failed(str(error), is_early=True))
        return {expressions[0]: found}

    def _tried(self, expression: str) -> Column:
        """A struct, or null for a row in which an expression fails: Spark's own `TryEval`."""
        session: Any = self._spark._jsparkSession
        jvm: Any = self._spark._jvm
        parsed = (
            session.sessionState().sqlParser().parseExpression(f"named_struct('x', {expression})")
        )
        tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parsed)
        return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(tried))


def duckdb_outcomes(table: pa.Table, translations: Mapping[str, Proven]) -> dict[str, Outcomes]:
    """Outcomes of the rows in DuckDB, by expression."""
    with duckdb.connect() as connection:
        connection.execute("; ".join(SETTINGS))
        connection.execute("SET threads = 1")
        connection.register("rows", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        return {
            expression: _rows_of(connection, proven, len(table))
            for expression, proven in translations.items()
        }


def _rows_of(connection: duckdb.DuckDBPyConnection, proven: Proven, rows: int) -> Outcomes:
    failed: dict[int, Failed] = {}

    def query(condition: str) -> str:
        return f"SELECT id, {proven.sql} AS x FROM (SELECT * FROM t WHERE {condition})"

    try:
        found = connection.sql(query("true")).to_arrow_table()
    except duckdb.Error:
        # Planned once, as that takes longer than to run it for a row.
        connection.execute(f"PREPARE one AS {query('id = $1')}")
        for row in range(rows):
            try:
                connection.execute(f"EXECUTE one({row})").fetchall()
            except duckdb.Error as error:
                failed[row] = Failed(str(error), undecided_value(error) is not None)
        others = f"id NOT IN ({', '.join(map(str, failed))})"
        # A table, as DuckDB may evaluate an expression before it leaves rows out.
        connection.execute(f"CREATE OR REPLACE TEMP TABLE others AS SELECT * FROM t WHERE {others}")
        text = f"SELECT id, {proven.sql} AS x FROM others"
        found = connection.sql(text).to_arrow_table()
    values = dict(zip(found["id"].to_pylist(), plain(found["x"]), strict=True))
    return [failed[row] if row in failed else values[row] for row in range(rows)]


def differences(spark: Outcomes, duck: Outcomes) -> dict[int, tuple[Any, Any]]:
    """Rows in which the two differ: neither the same value, nor both an error, nor undecided.

    Null here is no difference where Spark fails on a part that it computes too early: DuckDB never
    looks at the second operand of a comparison whose first one is null. Such a run of Spark ends
    without a row to compare.
    """
    return {
        row: (one, other)
        for row, (one, other) in enumerate(zip(spark, duck, strict=True))
        if not _agree(one, other) and one != other
    }


def _agree(spark: Any, duck: Any) -> bool:
    if isinstance(duck, Failed):
        return duck.is_undecided or isinstance(spark, Failed)
    return isinstance(spark, Failed) and spark.is_early and duck is None
