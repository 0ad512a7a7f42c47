"""Rows of a test as Arrow tables: schema, event-time column, order of several inputs' rows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sources.common.schema import normalize_schema, parse_schema
from sources.errors import InputError

Rows: TypeAlias = pa.Table | DataFrame | Iterable[Mapping[str, Any]]
"""Rows in the order in which they arrive: an Arrow table, a DataFrame, or mappings by column."""
ONE = ""
"""Name of the input of a transform with one DataFrame."""
Inputs: TypeAlias = dict[str, pa.Table]
"""Rows of several inputs, by name; of a transform with one DataFrame by the empty name."""
Schema: TypeAlias = pa.Schema | StructType | Mapping[str, str]
"""Columns: an Arrow or a Spark schema, or Spark SQL types by name as in a pipeline's file."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return a schema as the sources of a pipeline have it: timestamps in UTC, in microseconds.

    Raises:
        InputError: It has a type that no source has.
    """
    if isinstance(schema, Mapping):
        return parse_schema(schema)
    is_spark = isinstance(schema, StructType)
    return normalize_schema(to_arrow_schema(schema, timezone="UTC") if is_spark else schema)


def arrow_table(rows: Rows, schema: pa.Schema | None) -> pa.Table:
    """Return rows as an Arrow table, in their order.

    Without a schema the types are those that Arrow finds in the values.

    Args:
        rows: The rows.
        schema: Their columns; None to find them in the rows.

    Raises:
        InputError: A value does not fit its column, or the columns are not known.
    """
    if isinstance(rows, DataFrame):
        rows = rows.toArrow()
    try:
        if isinstance(rows, pa.Table):
            return rows.cast(normalize_schema(rows.schema) if schema is None else schema)
        made = [dict(each) for each in rows]
        if schema is not None:
            return pa.Table.from_pylist(made, schema)
        table = pa.Table.from_pylist(made)
        return table.cast(normalize_schema(table.schema))
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        message = f"The rows can't be made a table: {error}."
        hint = (
            "Name the columns and their types as `schema`, such as `{'id': 'bigint', 'at': "
            "'timestamp'}`, and give every row values that fit."
        )
        raise InputError(message, hint) from None


def in_order(inputs: Inputs, event_time: str) -> list[str]:
    """Return for each row of all inputs, in the order in which they come, the input that it is of.

    Rows of one input come in their own order. Those of several are merged by event time; a late
    row, or one without a time, comes right after the row of its input before it. Of equal times the
    names of the inputs decide.

    Args:
        inputs: The rows.
        event_time: Their event-time column.
    """

    def times(name: str, rows: pa.Table) -> list[tuple[int, str]]:
        column = pc.cast(rows[event_time], pa.int64()).fill_null(0)
        return [(int(at), name) for at in np.maximum.accumulate(column.to_numpy())]

    merged = heapq.merge(*(times(name, rows) for name, rows in inputs.items() if rows.num_rows))
    return [name for _, name in merged]


def event_time_of(schema: pa.Schema, declared: str | None) -> str:
    """Return the event-time column: the declared one, or the only timestamp that there is.

    Raises:
        InputError: It is no timestamp, or not declared and not the only one.
    """
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if declared is None and len(times) == 1:
        return str(times[0])
    if declared in times:
        return str(declared)
    message = f"`event_time` is `{declared}`, which is no timestamp column of the rows."
    if declared is None:
        message = "`event_time` is needed: the rows don't have exactly one timestamp column."
    hint = f"Name the timestamp column that the pipeline declares; there are: {', '.join(times)}."
    if not times:
        hint = "Give the rows the timestamp column that the pipeline declares as `event_time`."
    raise InputError(message, hint, field="event_time")
