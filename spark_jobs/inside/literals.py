"""Literals of Spark for declared values: days and times of the far past stay the declared ones."""

from __future__ import annotations

from datetime import date
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses


def literal(value: Any, kind: str) -> Column:
    """Return a declared value as a column of a type.

    A date or time becomes a literal as text: PySpark's own way goes through Java's old calendar,
    which has other days before 1582, and other zones before 1900.

    Args:
        value: The value, as Python has it; a time without a zone is one of the session's zone.
        kind: Spark SQL type of the column.
    """
    return F.lit(str(value) if isinstance(value, date) else value).cast(kind)
