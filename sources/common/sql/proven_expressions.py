"""Proven expressions of Spark SQL, which DuckDB evaluates alike; an extension translates them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from sources.extensions import contributions

UNDECIDED = "a value of a form that only Spark reads:"
"""Beginning of DuckDB's error for a value for which an expression's translation is not proven."""
_DECODE = "Failure in decode"


@dataclass(frozen=True)
class Proven:
    """Result of :func:`translate`: DuckDB evaluates the expression as Spark does.

    Attributes:
        sql: The expression in DuckDB's SQL.
        type: Its type.
    """

    sql: str
    type: pa.DataType


@dataclass(frozen=True)
class Unproven:
    """Result of :func:`translate`: only Spark is known to evaluate the expression.

    Attributes:
        reason: The part of it that has no proven translation, such as ```hash` of (int)``.
    """

    reason: str


class _Calls(Spark):
    """Spark SQL with its functions by their own names, which sqlglot would translate."""

    class Parser(SparkParser):
        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST")
        }


def translate(text: str, columns: pa.Schema) -> Proven | Unproven:
    """Translate an expression of Spark SQL to DuckDB's SQL, if all of its parts are proven equal.

    Returns :class:`Unproven`, with the part, if not, or if no installed extension translates
    expressions. DuckDB then gives what Spark gives by default (ANSI mode, UTC), and
    fails where Spark fails. For a value for which a part is not proven it fails with an error that
    :func:`undecided_value` recognizes.

    Args:
        text: One expression of Spark SQL.
        columns: The columns that it may use, with Spark's types; DuckDB has the same.

    Raises:
        InputError: An extension can't be loaded.
    """
    for made in contributions("expressions"):
        found: Proven | Unproven = made(text, columns)
        return found
    return Unproven("an expression, of which no installed extension knows a translation,")


def undecided_value(error: Exception) -> str | None:
    """Return in words the value that DuckDB left to Spark, from DuckDB's error; else None.

    Args:
        error: DuckDB's error, or one that quotes its text. None is returned for all other errors.
    """
    text = str(error)
    if UNDECIDED in text:
        return f"{UNDECIDED}{text.partition(UNDECIDED)[2].splitlines()[0]}"
    return "bytes that are not UTF-8, of which only Spark makes a text" if _DECODE in text else None


@cache
def parse_calls(text: str) -> exp.Expr | None:
    """Parse an expression or a query, with all functions by the names that Spark has for them.

    None if sqlglot can't parse it. Do not change the tree: the next caller gets the same one.
    """
    try:
        return parse_one(text, read=_Calls)
    except SqlglotError:
        return None
