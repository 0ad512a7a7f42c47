"""Translation of Spark SQL expressions to DuckDB, if they use proven functions only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from sources.common.expressions.nodes import Translator
from sources.common.expressions.values import NULL, UNDECIDED, UnprovenError, duck

_DECODE = "Failure in decode"
_ESCAPES = re.compile(r"\\[\\ntr'\"%_]")
# Parts repeat in the translation, so that nested expressions become long.
_LONGEST = 200_000


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

    Returns :class:`Unproven`, with the part, if not; never raises. DuckDB then gives what Spark
    gives by default (ANSI mode, UTC), and fails where Spark fails. For a value for which a part is
    not proven it fails with an error that :func:`undecided_value` recognizes.

    Args:
        text: One expression of Spark SQL.
        columns: The columns that it may use, with Spark's types; DuckDB has the same.
    """
    try:
        if "\\" in _ESCAPES.sub("", text):
            message = "an escape in a text other than \\\\, \\n, \\t, \\r and quotes"
            raise UnprovenError(message)
        found = Translator(columns).value(_parse(text))
        duck(found.type) if found.type != NULL else None
    except UnprovenError as error:
        return Unproven(str(error))
    if len(found.sql) > _LONGEST:
        return Unproven("its length in DuckDB's SQL")
    return Proven(found.sql, found.type)


def undecided_value(error: Exception) -> str | None:
    """Return in words the value that DuckDB left to Spark, from DuckDB's error; else None.

    Args:
        error: DuckDB's error, or one that quotes its text. None is returned for all other errors.
    """
    text = str(error)
    if UNDECIDED in text:
        return f"{UNDECIDED}{text.partition(UNDECIDED)[2].splitlines()[0]}"
    return "bytes that are not UTF-8, of which only Spark makes a text" if _DECODE in text else None


def called_functions(query: str) -> list[str] | None:
    """Return the names of the functions that a query of Spark SQL calls, in lower case.

    In order, with repetitions; None if sqlglot can't parse the query.
    """
    try:
        calls = parse_one(query, read=_Calls).find_all(exp.Anonymous)
    except SqlglotError:
        return None
    return [str(call.this).lower() for call in calls]


@cache
def _parse(text: str) -> exp.Expr:
    try:
        return parse_one(text, read=_Calls)
    except SqlglotError:
        message = "its syntax"
        raise UnprovenError(message) from None
