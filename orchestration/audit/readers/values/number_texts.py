"""Texts that Spark makes of JSON numbers with a fraction or an exponent, in columns of text."""

from __future__ import annotations

import math
from decimal import Decimal

import duckdb
import pyarrow as pa

from sources.common.sql.sql_names import quoted


def numbers_as_spark(
    connection: duckdb.DuckDBPyConnection, rows: str, column: str, field: str
) -> None:
    """Replace the texts of JSON numbers in a column of text by those that Spark makes of them.

    Of an integer both make its digits.

    Args:
        connection: The audit's database.
        rows: Table of the rows.
        column: Name of the column.
        field: SQL of the JSON value.
    """
    name = quoted(column)
    # Of integers DuckDB has the digits, too, however many there are.
    is_number = f"json_type({field}) = 'DOUBLE' AND NOT regexp_full_match({name}, '-?[0-9]+')"
    query = f"SELECT DISTINCT {name} FROM {rows} WHERE {is_number}"
    texts = [text for (text,) in connection.execute(query).fetchall()]
    if not texts:
        return
    both = pa.table({"text": texts, "other": [java_text(float(text)) for text in texts]})
    connection.register("_texts", both)
    connection.execute(
        f"UPDATE {rows} SET {name} = _texts.other FROM _texts "
        f"WHERE {is_number} AND {name} = _texts.text"
    )
    connection.unregister("_texts")


def java_text(number: float) -> str:
    """Return a number as Java's ``Double.toString`` writes it, such as ``1.0E22`` or ``12.5``.

    One that is not finite has quotes, as Spark has it.
    """
    if math.isnan(number):
        return '"NaN"'
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    minus = "-" if sign else ""
    if not number or not isinstance(exponent, int):
        return f"{minus}0.0"
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    if not 1e-3 <= abs(number) < 1e7:
        return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
