"""Declaration of a sample: a share of the keys, in all sources the same ones, or a part of time.

Spark and DuckDB choose the same rows by one condition: the MD5 of the values as text, which both
write alike for the types that are allowed.
"""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
from pydantic import Field

from sources.common.schema import type_name
from sources.common.sql.row_sql import parse_expression, to_duckdb
from sources.config.source.file_options import TimeRange
from sources.errors import ErrorFields, InputError

# The first 8 hexadecimal digits of the MD5 decide.
_DIGITS = 8
_FINEST = 16.0**-_DIGITS
_BETWEEN = "|"
_NULL = "~"


class Sample(TimeRange):
    """Rows that a pipeline reads, where it does not read all of them: those of some keys.

    Rows without any of the values in ``by``, such as a TRUNCATE, belong to every sample.

    Attributes:
        share: Which part of the values in ``by`` is read, above 0 and at most 1.
        by: Columns, after ``select``, whose values decide by their hash: rows with the same values
            are all read, or none of them.
        since: First event time that is read; unlimited by default.
        until: First event time that is no longer read; unlimited by default.

    """

    share: Annotated[float, Field(ge=_FINEST, le=1)]
    by: Annotated[list[str], Field(min_length=1)]

    def condition(self, event_time: str) -> str:
        """Return the condition in Spark SQL that is true for the rows of the sample.

        ``true`` if all rows are read.

        Args:
            event_time: Name of the event-time column.
        """
        texts = [f"regexp_replace(CAST(`{name}` AS STRING), '[+]00$', '')" for name in self.by]
        values = ", ".join(f"coalesce({text}, '{_NULL}')" for text in texts)
        nulls = " AND ".join(f"`{name}` IS NULL" for name in self.by)
        parts = []
        if self.share < 1:
            below = f"{int(self.share * 16**_DIGITS):0{_DIGITS}x}"
            digits = f"substr(md5(concat_ws('{_BETWEEN}', {values})), 1, {_DIGITS})"
            parts.append(f"({digits} < '{below}' OR ({nulls}))")
        limits = ((">=", self.since), ("<", self.until))
        parts += [
            f"`{event_time}` {sign} TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'"
            for sign, moment in limits
            if moment is not None
        ]
        return " AND ".join(parts) or "true"

    def duckdb_condition(self, event_time: str) -> str:
        """Return the condition in DuckDB's SQL that is true for the rows of the sample.

        ``true`` if all rows are read. Raises nothing.

        Args:
            event_time: Name of the event-time column.
        """
        fields: ErrorFields = {"field": "sample"}
        return to_duckdb(parse_expression(self.condition(event_time), "`sample`", fields))

    def require_columns(self, columns: pa.Schema) -> None:
        """Refuse columns in ``by`` that do not exist, or that Spark and DuckDB write differently.

        The sample is chosen by the text of the values, in both.

        Args:
            columns: The columns of a source, after ``select``.

        Raises:
            InputError: Names the column: missing, floating-point, nested or binary.
        """
        for name in self.by:
            if name not in columns.names:
                message = f"`sample.by` names a column `{name}`, which the sources do not have."
                hint = f"Name one or several of these columns: {', '.join(columns.names)}."
                raise InputError(message, hint, field="sample.by", column=name)
            kind = columns.field(name).type
            if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
                message = (
                    f"`sample.by` names column `{name}` of the type {type_name(kind)}, whose "
                    "values Spark and DuckDB write differently as text."
                )
                hint = "Name columns of texts, whole numbers, decimals, dates, times or booleans."
                raise InputError(message, hint, field="sample.by", column=name)
