"""Spark SQL on the columns of one row: aggregates, windows and subqueries are refused.

They are written in Spark SQL in a pipeline's file, and parsed here without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError

from sources.errors import ErrorFields, InputError

# https://spark.apache.org/docs/latest/api/sql/#timestamp_seconds; microseconds in a unit
_INSTANTS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}
_ROWS = (exp.AggFunc, exp.Window, exp.Query, exp.Star, exp.Explode)


def parse_expression(text: str, where: str, fields: ErrorFields) -> exp.Expr:
    """Parse one expression of Spark SQL to sqlglot's syntax tree, without Spark.

    Only the syntax is checked; columns are checked by :func:`require_row_by_row`. Do not change the
    tree: the next caller gets the same one.

    Args:
        text: One expression of Spark SQL.
        where: The field that declares it, with its text; begins the message of the error.
        fields: The field that declares it, as fields of the error for programs.

    Raises:
        InputError: The text is not one expression; the message has line and column in the text.
    """
    try:
        return _parse(text)
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        # Without the names of sqlglot's classes.
        told = re.sub("Required keyword: .* <class .*?>", "a part of it is missing", first)
        message = f"{where} is not SQL: {told.rstrip('.')}."
        hint = "Write one expression of Spark SQL, such as CAST(id AS bigint)."
        raise InputError(message, hint, **fields) from None


def require_row_by_row(
    tree: exp.Expr, columns: Sequence[str], where: str, hint: str, fields: ErrorFields
) -> None:
    """Refuse an expression that needs more than the columns of one row.

    Called after :func:`parse_expression`. A field of a struct counts by the name of its struct;
    names are compared with their case.

    Args:
        tree: Its syntax tree.
        columns: Names of the columns that there are.
        where: The field that declares it, with its text, for messages.
        hint: What to do about an expression that is not evaluated row by row.
        fields: The field that declares it, as fields of the error for programs.

    Raises:
        InputError: It aggregates or generates rows, or has a subquery or ``*``; or it uses a column
            that does not exist.
    """
    if tree.find(*_ROWS) is not None:
        message = (
            f"{where} is not evaluated row by row: it combines or generates rows, or selects "
            "all columns; only expressions on the columns of one row are allowed."
        )
        raise InputError(message, hint, **fields)
    for column in tree.find_all(exp.Column):
        # For a field of a struct, the struct.
        first = column.parts[0].name
        if first not in columns:
            message = f"{where} uses a column `{first}`, which does not exist."
            usable = f"Use one of these columns: {', '.join(columns)}."
            about: ErrorFields = {**fields, "column": first}
            raise InputError(message, usable, **about)


def to_duckdb(tree: exp.Expr, unsupported: ErrorLevel = ErrorLevel.WARN) -> str:
    """Convert an expression or a query of Spark SQL to DuckDB's SQL, by sqlglot.

    That both mean the same is not proven (unlike
    :func:`~sources.common.sql.proven_expressions.translate`).

    Args:
        tree: Its syntax tree.
        unsupported: What happens if sqlglot knows that DuckDB lacks something: by default a warning
            is logged.

    Raises:
        UnsupportedError: DuckDB lacks something, and ``unsupported`` is ``RAISE``.
    """
    made = tree.transform(_without_instants).transform(_decoded)
    return made.sql("duckdb", unsupported_level=unsupported)


@cache
def _parse(text: str) -> exp.Expr:
    """Return the syntax tree of an expression; cached, as planning needs each one many times."""
    return parse_one(text, read="spark")


def is_plain(tree: exp.Expr) -> bool:
    """Return whether an expression is nothing but a column's name: no field, function or alias."""
    return isinstance(tree, exp.Column) and len(tree.parts) == 1


class TimestampCall(NamedTuple):
    """Call of a function from a number to a timestamp.

    Attributes:
        argument: Expression of the number.
        unit_us: Microseconds of its unit.
    """

    argument: exp.Expr
    unit_us: int


def timestamp_call(tree: exp.Expr | None) -> TimestampCall | None:
    """Recognize ``timestamp_seconds``, ``timestamp_millis`` or ``timestamp_micros`` of a number.

    None for every other expression, and for None. Upper and lower case of the function's name are
    alike.
    """
    if not isinstance(tree, exp.Anonymous) or len(tree.expressions) != 1:
        return None
    unit = _INSTANTS.get(tree.name.lower())
    return None if unit is None else TimestampCall(tree.expressions[0], unit)


def _decoded(tree: exp.Expr) -> exp.Expr:
    """Replace casts of bytes to text: Spark decodes UTF-8, DuckDB would escape the bytes."""
    if not isinstance(tree, exp.Cast) or not tree.to.is_type("text"):
        return tree
    value = tree.this.transform(_decoded).sql("duckdb")
    text = (
        f"(CASE WHEN typeof({value}) = 'BLOB' THEN TRY(decode(TRY_CAST({value} AS BLOB))) "
        f"ELSE TRY_CAST({value} AS TEXT) END)"
    )
    return parse_one(text, read="duckdb")


def _without_instants(tree: exp.Expr) -> exp.Expr:
    """Replace functions from a number to a timestamp by DuckDB's own."""
    call = timestamp_call(tree)
    if call is None:
        return tree
    # A number of 32 bits times a unit needs 64.
    unit = f"CAST({call.unit_us} AS BIGINT)"
    micros = f"CAST(({call.argument.sql('duckdb')}) * {unit} AS BIGINT)"
    return parse_one(f"make_timestamptz({micros})", read="duckdb")
