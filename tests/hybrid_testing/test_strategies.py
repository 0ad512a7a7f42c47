"""Rows of a schema: their types, their order in time, and how late they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from pyspark.sql import types as T  # noqa: N812 - as in PySpark's own examples

from hybrid_testing.rows import arrow_schema, arrow_table
from hybrid_testing.strategies import rows_of
from sources.errors import InputError
from tests.properties import examples

EVERY_TYPE = {
    "at": "timestamp",
    "flag": "boolean",
    "tiny": "tinyint",
    "id": "bigint",
    "narrow": "float",
    "price": "decimal(10,2)",
    "name": "string",
    "raw": "binary",
    "day": "date",
    "tags": "array<string>",
    "where": "struct<x:double,y:double>",
    "attributes": "map<string,int>",
}
LATE = timedelta(minutes=3)
SPARK = T.StructType(
    [
        T.StructField("at", T.TimestampType()),
        T.StructField("id", T.LongType(), nullable=False),
        T.StructField("name", T.StringType()),
    ]
)


@examples(50)
@given(rows=rows_of(EVERY_TYPE))
def test_rows_fit_every_type_of_a_source(rows: list[dict[str, Any]]) -> None:
    schema = arrow_schema(EVERY_TYPE)
    assert arrow_table(rows, schema).schema == schema


@examples(100)
@given(rows=rows_of({"at": "timestamp"}, late=LATE, step=timedelta(minutes=1)))
def test_no_row_is_later_than_declared(rows: list[dict[str, Any]]) -> None:
    times = [row["at"] for row in rows]
    highest = list(accumulate(times, max))
    assert all(top - at <= LATE for top, at in zip(highest, times, strict=True))
    assert all(at >= datetime(2024, 1, 1, tzinfo=UTC) for at in times)


def test_some_rows_are_late_and_without_it_none_is() -> None:
    def is_late(rows: list[dict[str, Any]]) -> bool:
        times = [row["at"] for row in rows]
        return times != sorted(times)

    assert find(rows_of({"at": "timestamp"}, late=LATE), is_late)
    with pytest.raises(NoSuchExample, match="No examples found"):
        find(rows_of({"at": "timestamp"}), is_late)


@examples(50)
@given(rows=rows_of(SPARK, key=["id"], columns={"id": st.integers(0, 9)}, max_size=10))
def test_a_key_is_unique_and_a_column_that_is_never_null_is_not(rows: list[dict[str, Any]]) -> None:
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == len(ids)
    assert None not in ids


def test_a_column_that_may_be_null_is_null_at_times() -> None:
    assert find(rows_of(SPARK), lambda rows: rows[0]["name"] is None)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ({"id": "bigint"}, {}, "`event_time` is needed"),
        ({"a": "timestamp", "b": "timestamp"}, {}, "don't have exactly one timestamp"),
        ({"at": "timestamp", "id": "bigint"}, {"event_time": "id"}, "`id`, which is no timestamp"),
        ({"at": "timestamp"}, {"key": ["id"]}, "no column `id`; the schema has at"),
        (
            pa.schema([("at", pa.timestamp("ms")), ("span", pa.month_day_nano_interval())]),
            {},
            "`span`",
        ),
    ],
)
def test_what_has_no_rows_is_refused_by_name(
    schema: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        rows_of(schema, **options)


def test_the_event_time_alone_is_no_key() -> None:
    with pytest.raises(InputError, match="`key` is `at` alone"):
        rows_of({"at": "timestamp", "id": "bigint"}, key=["at"])
