"""A source's ``select``: expressions of its columns, whose types have to be known without Spark.

Spark evaluates them. Their types have to be known without Spark, before anything runs: by a plain
column, by an outermost ``CAST``, or by one of the functions from a number to a timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from sources.common.schema import TIMESTAMP, field_id, parse_type, type_name
from sources.common.sql.engine import SETTINGS
from sources.common.sql.proven_expressions import Proven, Unproven, translate, undecided_value
from sources.common.sql.row_sql import (
    is_plain,
    parse_expression,
    require_row_by_row,
    timestamp_call,
)
from sources.common.sql.sql_names import quoted
from sources.errors import ErrorFields, InputError


class OnlySparkError(InputError):
    """Error that a plan can't evaluate an expression, or one of its values: only Spark can."""


class EventColumn(NamedTuple):
    """Column of a file that the event time is read from.

    Attributes:
        name: Name in the file.
        unit_us: Microseconds of its unit if it holds integers; None if it holds timestamps.
        others: Names that it has in other files of the source.
        may_lack: Whether files may lack it, whose rows then have no event time.
        number: Field id by which files of a table have it, under any name; None if by its name.
    """

    name: str
    unit_us: int | None
    others: tuple[str, ...] = ()
    may_lack: bool = False
    number: int | None = None

    def within(self, columns: pa.Schema) -> EventColumn | None:
        """Return this column under the name that a given file has for it.

        If the file lacks it: None if it ``may_lack`` the column, else this column unchanged.

        Args:
            columns: Columns of the file.
        """
        if self.number is not None:
            names = [field.name for field in columns if field_id(field) == self.number]
        else:
            names = [name for name in (*self.others, self.name) if name in columns.names]
        if not names and self.may_lack:
            return None
        return self._replace(name=names[0]) if names else self


@dataclass(frozen=True)
class Selection:
    """Expressions of one source's ``select``.

    Attributes:
        source: Name of the source, for messages.
        expressions: Expression of each output column; empty if columns are kept as they are.
    """

    source: str
    expressions: Mapping[str, str]

    def columns(self, read: pa.Schema) -> pa.Schema:
        """Return the output columns with their types: ``read`` itself without a ``select``.

        In the order of ``select``. Names are compared with their case.

        Args:
            read: Columns of the source.

        Raises:
            InputError: An expression is not SQL, uses a column that does not exist, is not
                evaluated row by row, or has no declared type.
        """
        if not self.expressions:
            return read
        return pa.schema([(name, self._type(name, read)) for name in self.expressions])

    def event_column(self, event_time: str) -> EventColumn | None:
        """Return the file's column that the event time is read from without other computation.

        Its statistics in a file's metadata then contain the lowest and highest event time.

        Args:
            event_time: Event-time column of the output.

        Returns:
            The column; None if the event time is computed by another expression than a plain column
            or ``timestamp_seconds``, ``timestamp_millis`` or ``timestamp_micros`` of one, or
            ``select`` does not have it.

        Raises:
            InputError: An expression is not SQL.
        """
        if not self.expressions:
            return EventColumn(event_time, None)
        tree = self._trees.get(event_time)
        if tree is not None and is_plain(tree):
            return EventColumn(tree.name, None)
        call = timestamp_call(tree)
        if call is not None and is_plain(call.argument):
            return EventColumn(call.argument.name, call.unit_us)
        return None

    def inputs(self, name: str) -> set[str]:
        """Return the names of the source's columns that an output column is computed from.

        Without ``select`` the column itself; empty for an expression without columns.

        Args:
            name: Output column.

        Raises:
            KeyError: ``select`` is declared and does not have this column.
            InputError: An expression is not SQL.
        """
        if not self.expressions:
            return {name}
        return {column.parts[0].name for column in self._trees[name].find_all(exp.Column)}

    def evaluate(self, name: str, batch: pa.RecordBatch) -> pa.ChunkedArray:
        """Compute an output column for a few rows by DuckDB, without Spark.

        For the plan, which needs event times of sampled rows before anything runs.

        Args:
            name: Output column.
            batch: Rows with the source's columns.

        Raises:
            KeyError: There is no such output column, or the rows lack one that it needs.
            OnlySparkError: DuckDB is not proven to evaluate the expression, or a value of it, as
                Spark does.
            InputError: An expression is not SQL, or fails for a value.
        """
        if not self.expressions:
            return pa.chunked_array([batch[name]])
        tree = self._trees[name]
        if is_plain(tree):
            return pa.chunked_array([batch[tree.name]])
        translation = self.translation(name, batch.schema)
        if isinstance(translation, Unproven):
            raise self._only_spark(name, f"{translation.reason} is not proven")
        # It takes long to import, and most sources do not need it.
        import duckdb  # noqa: PLC0415

        with duckdb.connect() as connection:
            connection.execute("; ".join(SETTINGS))
            connection.register("sample", pa.Table.from_batches([batch]))
            try:
                table = connection.sql(f"SELECT {translation.sql} AS x FROM sample")
                values: pa.ChunkedArray = table.to_arrow_table().column(0)
            except duckdb.Error as error:
                if (value := undecided_value(error)) is not None:
                    raise self._only_spark(name, f"there is {value}") from None
                # Without the lines that quote DuckDB's own form of the expression.
                told = str(error).partition("\n")[0].rstrip(".!")
                message = f"{self._where(name)} can't be evaluated on a sample of the data: {told}."
                hint = (
                    "Correct the expression, or the data that it fails on; what only Spark can "
                    "evaluate belongs in the `transform`."
                )
                raise InputError(message, hint, **self._fields(name)) from None
        return values

    def is_computed(self, name: str) -> bool:
        """Return whether an output column is more than a renamed column or a converted instant.

        False without ``select``, and for a column that it lacks. A converted instant is
        ``timestamp_seconds`` (or millis, micros) of a column.

        Args:
            name: Output column.

        Raises:
            InputError: An expression is not SQL.
        """
        tree = self._trees.get(name)
        return tree is not None and not is_plain(tree) and self.event_column(name) is None

    def translation(self, name: str, columns: pa.Schema) -> Proven | Unproven:
        """Translate an output column to DuckDB's SQL, or say why only Spark evaluates it.

        Args:
            name: Output column that ``select`` has.
            columns: Columns of the source.

        Raises:
            KeyError: ``select`` does not have this column.
            InputError: An expression is not SQL.
        """
        tree = self._trees[name]
        if is_plain(tree):
            return Proven(quoted(tree.name), columns.field(tree.name).type)
        return translate(self.expressions[name], columns)

    def _only_spark(self, name: str, why: str) -> OnlySparkError:
        message = (
            f"{self._where(name)}: the plan needs event times before Spark runs, and only Spark "
            f"can compute this one: {why}."
        )
        hint = (
            "Write the event time as CAST(<text> AS timestamp), as try_cast(<text> AS timestamp) "
            "if some texts are no times, as to_timestamp(<text>, 'yyyy-MM-dd HH:mm:ss') or "
            "timestamp_millis(<number>), and convert it further in the `transform`; docs/values.md "
            "lists the expressions that are proven."
        )
        return OnlySparkError(message, hint, **self._fields(name))

    @cached_property
    def _trees(self) -> dict[str, exp.Expr]:
        return {
            name: parse_expression(text, self._where(name), self._fields(name))
            for name, text in self.expressions.items()
        }

    def _where(self, name: str) -> str:
        return f"Source `{self.source}`: `select.{name}: {self.expressions[name]}`"

    def _fields(self, name: str) -> ErrorFields:
        return {"source": self.source, "field": f"select.{name}"}

    def _type(self, name: str, read: pa.Schema) -> pa.DataType:
        tree = self._trees[name]
        where, fields = self._where(name), self._fields(name)
        hint = f"Remove `{name}` from `select`, and compute it in the transform."
        require_row_by_row(tree, read.names, where, hint, fields)
        if is_plain(tree):
            return read.field(tree.name).type
        if timestamp_call(tree) is not None:
            return TIMESTAMP
        if isinstance(tree, exp.Cast):
            return parse_type(tree.to.sql("spark"))
        message = f"{where} has no declared type; the type must be known before Spark runs."
        known = self.translation(name, read)
        if isinstance(known, Proven):
            hint = f"Write CAST({self.expressions[name]} AS {type_name(known.type)})."
        else:
            hint = (
                f"Write its type in place of `<type>`: CAST({self.expressions[name]} AS <type>), "
                "such as timestamp for an event time."
            )
        raise InputError(message, hint, **fields)
