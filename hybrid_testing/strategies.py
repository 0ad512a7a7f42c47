"""Hypothesis strategies for rows of a schema: late rows, steps of event time, keys, nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from hybrid_testing.rows import Schema, arrow_schema, event_time_of
from sources.common.optional import needs_extra
from sources.errors import InputError

with needs_extra("testing", "`hybrid_testing.strategies`"):
    from hypothesis import strategies as st

Row = dict[str, Any]
"""Values of a row by column."""
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime(1990, 1, 1), datetime(2030, 1, 1)  # noqa: DTZ001 - Hypothesis wants none
# Without what Parquet or JSON has no form for.
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def rows_of(  # noqa: PLR0913 - what a test may vary
    schema: Schema,
    *,
    event_time: str | None = None,
    late: timedelta = timedelta(0),
    step: timedelta = timedelta(minutes=10),
    begin: datetime = _BEGIN,
    columns: Mapping[str, st.SearchStrategy[Any]] | None = None,
    key: Sequence[str] = (),
    min_size: int = 2,
    max_size: int = 8,
) -> st.SearchStrategy[list[Row]]:
    """Return a strategy for rows in the order in which they arrive.

    Their event times advance by at most ``step`` from row to row, but each row may be late: behind
    the highest event time before it, by at most ``late``.

    Args:
        schema: Columns: an Arrow or a Spark schema, or Spark SQL types by name. A column that may
            be null is null at times.
        event_time: Event-time column; not needed if there is only one timestamp.
        late: How late a row may be: less than the delay of the transform's watermark.
        step: How far the event time advances at most from one row to the next.
        begin: Lowest event time, with a time zone.
        columns: Strategies for the values of some columns, by name; by default any value of the
            type. A few values for what a transform groups by make it meet the same group often.
        key: Columns that identify a row: no two rows have the same values in them. The event time
            does not count; alone it is refused.
        min_size: Smallest number of rows.
        max_size: Largest number of rows.

    Raises:
        InputError: The schema has no such column, or a type that is not supported.
    """
    made = arrow_schema(schema)
    time = event_time_of(made, event_time)
    nullable = {field.name for field in made} - {time, *key, *_required(schema)}
    named = dict(columns or {})
    for name in [*named, *key]:
        if name not in made.names:
            message = f"There is no column `{name}`; the schema has {', '.join(made.names)}."
            raise InputError(message, "Name a column of the schema.", column=name)
    if [*key] == [time]:
        message = f"`key` is `{time}` alone, the event time, in which rows of a stream repeat."
        raise InputError(message, "Name another column, too.", field="key")
    values = {
        field.name: named.get(field.name, _values(field.type, is_null=field.name in nullable))
        for field in made
        if field.name != time
    }
    unit = timedelta(microseconds=1)
    moments = st.tuples(
        st.integers(0, step // unit).map(lambda us: us * unit),
        st.integers(0, late // unit).map(lambda us: us * unit),
    )
    drawn = st.lists(
        st.tuples(moments, st.fixed_dictionaries(values)),
        min_size=min_size,
        max_size=max_size,
        unique_by=(lambda each: repr([each[1].get(name) for name in key])) if key else None,
    )

    def in_time(every: list[tuple[tuple[timedelta, timedelta], Row]]) -> list[Row]:
        highest, rows = begin, []
        for (advance, back), row in every:
            highest += advance
            moment = max(highest - back, begin)
            rows.append({name: moment if name == time else row[name] for name in made.names})
        return rows

    return drawn.map(in_time)


def _required(schema: Schema) -> set[str]:
    """Return the columns that a schema declares not to be null."""
    return set() if isinstance(schema, Mapping) else {f.name for f in schema if not f.nullable}


def _values(kind: pa.DataType, *, is_null: bool = True) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type.

    Raises:
        InputError: The type is not supported.
    """
    some = _some_values(kind)
    return some if not is_null else st.one_of(some, st.none())


def _some_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False, allow_infinity=False)
    if pa.types.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-kind.scale)
        return st.decimals(-most, most, places=kind.scale)
    if pa.types.is_list(kind):
        return st.lists(_values(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: _values(field.type) for field in kind})
    if pa.types.is_map(kind):
        keys, items = _values(kind.key_type, is_null=False), _values(kind.item_type)
        return st.lists(st.tuples(keys, items), max_size=3, unique_by=lambda entry: repr(entry[0]))
    simple: dict[pa.DataType, st.SearchStrategy[Any]] = {
        pa.bool_(): st.booleans(),
        pa.string(): _TEXTS,
        pa.binary(): st.binary(max_size=8),
        pa.date32(): st.dates(date(1990, 1, 1), date(2030, 1, 1)),
        pa.timestamp("us", "UTC"): st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)),
    }
    if kind not in simple:
        message = f"There is no strategy for values of the type {kind}."
        hint = "Give a strategy for the column in `columns`."
        raise InputError(message, hint, value=str(kind))
    return simple[kind]
