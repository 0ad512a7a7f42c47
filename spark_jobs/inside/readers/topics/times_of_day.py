"""JSON timestamps without a date, to which Spark would add the current date."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import TIMESTAMP, ddl, leaves, with_leaves
from spark_jobs.inside.readers.topics.leaf_values import any_leaf

TIME_OF_DAY = "a time of day without a date is no timestamp"
"""Why a record with such a text is bad."""
# Spark leaves out what is before it; of texts with escapes, the second look decides.
_FORM = r"[\s\p{Cntrl}]*(?:T|[0-9]+:)"
_IN_JSON = rf'"(?:{_FORM}|[^"]*\\)'


def has_time_of_day(columns: pa.Schema, value: Column) -> Column:
    """Return the condition that a timestamp column has a text without a date; never null.

    Such a record is bad, as Spark would add the current date.

    Args:
        columns: The columns.
        value: The JSON text, as bytes.
    """
    with_times = pa.schema(each for each in columns if TIMESTAMP in leaves(each.type))
    if not with_times.names:
        return F.lit(False)
    as_texts = pa.schema(each.with_type(with_leaves(each.type, _as_text)) for each in with_times)
    text = value.cast("string")
    rows = F.from_json(text, ddl(as_texts), {"mode": "PERMISSIVE"})
    found = any_leaf(rows, pa.struct(with_times), _is_time_of_day)
    assert found is not None
    return F.when(text.rlike(_IN_JSON), F.coalesce(found, F.lit(False))).otherwise(F.lit(False))


def _as_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == TIMESTAMP else kind


def _is_time_of_day(value: Column, kind: pa.DataType) -> Column | None:
    return value.rlike(f"^{_FORM}") if kind == TIMESTAMP else None
