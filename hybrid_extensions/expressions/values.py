"""Types of translated values, what may fail or stop at null, and errors of unproven parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from sources.common.schema import TIMESTAMP, type_name
from sources.common.sql.proven_expressions import UNDECIDED
from sources.common.sql.sql_names import literal

STRING, BINARY, BOOLEAN, DATE, NULL = (
    pa.string(),
    pa.binary(),
    pa.bool_(),
    pa.date32(),
    pa.null(),
)
INT, BIGINT, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
INTEGERS = (pa.int8(), pa.int16(), INT, BIGINT)
"""Integer types, the narrow ones first."""
_NAMES = {
    STRING: "VARCHAR",
    BINARY: "BLOB",
    BOOLEAN: "BOOLEAN",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMPTZ",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    INT: "INTEGER",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    NULL: "INTEGER",
}


class UnprovenError(Exception):
    """Error that an expression has no proven translation; its text names the part that has none.

    It never reaches people: :func:`~sources.common.sql.proven_expressions.translate` returns an
    ``Unproven`` instead.
    """


@dataclass(frozen=True)
class Value:
    """A translated part of an expression: DuckDB's SQL with its type.

    Attributes:
        sql: SQL, in parentheses if needed, so that it can be put anywhere an operand can.
        type: Its type in Spark, which DuckDB's result has, too.
        literal: Value of a literal of Spark SQL; None for anything else.
        may_fail: Whether evaluating it may raise an error for some rows.
    """

    sql: str
    type: pa.DataType
    literal: str | int | Decimal | bool | None = None
    may_fail: bool = False

    @property
    def text(self) -> str | None:
        """Content of a literal text; None for anything else."""
        return self.literal if isinstance(self.literal, str) else None

    @property
    def whole(self) -> int | None:
        """Value of a literal integer; None for anything else.

        None, too, for a literal boolean or decimal.
        """
        is_number = isinstance(self.literal, int) and not isinstance(self.literal, bool)
        return int(self.literal) if is_number and self.literal is not None else None


def duck(kind: pa.DataType) -> str:
    """Return the name that DuckDB has for a type, such as ``BIGINT``.

    ``INTEGER`` for null.

    Raises:
        UnprovenError: Values of this type are not proven to be equal in Spark and DuckDB.
    """
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if kind not in _NAMES:
        message = f"values of the type {spark_name(kind)}"
        raise UnprovenError(message)
    return _NAMES[kind]


def spark_name(kind: pa.DataType) -> str:
    """Return Spark's name of a type, or Arrow's if Spark has none; for messages."""
    try:
        return type_name(kind)
    except KeyError:
        return str(kind)


def unproven(what: str, arguments: Sequence[Value]) -> UnprovenError:
    """Return an error, for the caller to raise: an operator is not proven for its arguments.

    Args:
        what: The operator or function.
        arguments: Its arguments; their types, or literals, are in the text.
    """
    kinds = ", ".join(
        repr(each.literal) if each.literal is not None else spark_name(each.type)
        for each in arguments
    )
    return UnprovenError(f"`{what}` of ({kinds})")


def undecided(value: str) -> str:
    """Return DuckDB SQL that always fails, for a value that only Spark is known to evaluate.

    :func:`~sources.common.sql.proven_expressions.undecided_value` recognizes the error.

    Args:
        value: SQL of the value, which the error quotes.
    """
    shown = f"coalesce(left(CAST({value} AS VARCHAR), 60), 'null')"
    return f"error({literal(f'{UNDECIDED} ')} || {shown})"


def result_value(
    sql: str, kind: pa.DataType, arguments: Sequence[Value], *, fails: bool = False
) -> Value:
    """Make the :class:`Value` of an operator or a function: SQL in parentheses, with its type.

    It may fail if an argument may.

    Args:
        sql: SQL of the result.
        kind: Its type.
        arguments: The arguments.
        fails: Whether the operator itself may raise an error for some rows.
    """
    return Value(f"({sql})", kind, may_fail=fails or any(each.may_fail for each in arguments))


def strict_value(
    sql: str, kind: pa.DataType, arguments: Sequence[Value], *, fails: bool = False
) -> Value:
    """Make the :class:`Value` of a function that stops at the first argument which is null.

    Spark then evaluates no later argument, so that these can't fail; DuckDB evaluates all, so the
    SQL is put into a CASE where needed.

    Args:
        sql: SQL of the result, which is null if an argument is.
        kind: Its type.
        arguments: The arguments, in the order in which Spark evaluates them.
        fails: Whether the function itself may raise an error for some rows.
    """
    *before, last = arguments
    if any(each.may_fail for each in arguments[1:]):
        is_null = " OR ".join(f"{each.sql} IS NULL" for each in before)
        sql = f"CASE WHEN {is_null} THEN NULL ELSE {sql} END"
    return result_value(sql, kind, [*before, last], fails=fails)


def is_number(kind: pa.DataType) -> bool:
    """Return whether Spark calculates with a type: integer, float, double or decimal."""
    return kind in INTEGERS or kind in (FLOAT, DOUBLE) or pa.types.is_decimal(kind)


def decimal_of(value: Value) -> pa.DataType | None:
    """Return the decimal type that Spark gives an integer or a decimal in arithmetic.

    A literal integer counts with its own digits. None for other types.
    """
    if pa.types.is_decimal(value.type):
        return value.type
    if value.type not in INTEGERS:
        return None
    if value.whole is not None:
        return pa.decimal128(len(str(abs(value.whole))), 0)
    return pa.decimal128((3, 5, 10, 20)[INTEGERS.index(value.type)], 0)
