"""JSON decoded by Arrow: only values that Spark reads alike, whatever is next to them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.schema import parse_schema
from sources.decoding.json.batches import read_objects, supports_schema
from tests.sources.decoding.json_case import COLUMNS, PLAIN, UNUSUAL_VALUES, documents

SCHEMA = parse_schema(COLUMNS)


def read(values: list[bytes | None], columns: pa.Schema = SCHEMA) -> list[dict[str, Any] | None]:
    rows: list[dict[str, Any] | None] = read_objects(
        pa.array(values, pa.binary()), columns
    ).to_pylist()
    return rows


@pytest.mark.parametrize("kind", PLAIN)
def test_plain_values_are_read(kind: str) -> None:
    values: list[bytes | None] = [f'{{"v": {text}}}'.encode() for text in PLAIN[kind]]
    rows = read(values, parse_schema({"v": kind}))
    assert None not in rows
    # No value is lost: null comes from null only.
    assert [row is not None and row["v"] is None for row in rows] == [
        text == "null" for text in PLAIN[kind]
    ]


def test_members_become_columns_whatever_their_order() -> None:
    columns = parse_schema({"id": "bigint", "name": "string"})
    values: list[bytes | None] = [
        b'{"name": "a", "more": {"id": [7]}, "id": 1}',
        b"{}",
        b'{"ID": 2, "name": null}',
    ]
    assert read(values, columns) == [
        {"id": 1, "name": "a"},
        {"id": None, "name": None},
        {"id": None, "name": None},
    ]


def test_few_that_can_not_be_read_do_not_keep_the_others_from_it() -> None:
    values: list[bytes | None] = [
        json.dumps({"id": n, "name": "é"}).encode() for n in range(10_000)
    ]
    values[17] = b'{"id": "17"}'
    values[5_000] = b"nothing"
    values[9_999] = None
    rows = read(values)
    left = [at for at, row in enumerate(rows) if row is None]
    assert {17, 5_000, 9_999} <= set(left)
    assert len(left) < 300
    assert all(row["id"] == at for at, row in enumerate(rows) if row is not None)


@given(st.lists(st.one_of(documents(), st.sampled_from(UNUSUAL_VALUES)), max_size=12))
def test_a_value_is_read_the_same_whatever_is_beside_it(values: list[bytes | None]) -> None:
    for value, row in zip(values, read(values), strict=True):
        assert row is None or [row] == read([value])


@given(st.lists(st.sampled_from([b"{", b"}", b'{"id":1', b'"', b",", b"null", b'"id":2}', b" "])))
def test_values_are_not_joined_to_objects(pieces: list[bytes]) -> None:
    values: list[bytes | None] = [b'{"id": 1}', *pieces, b'{"id": 2}']
    rows = read(values)
    for value, row in zip(values, rows, strict=True):
        assert row is None or json.loads(value or b"").get("id") == row["id"]


@pytest.mark.parametrize("kind", ["float", "binary", "array<bigint>", "struct<a:bigint>"])
def test_types_that_spark_reads_in_another_way_are_left_to_it(kind: str) -> None:
    assert not supports_schema(parse_schema({"id": "bigint", "v": kind}))
    assert supports_schema(SCHEMA)


def test_slices_and_nothing_at_all() -> None:
    assert read([]) == []
    values = pa.array([b"[]", b'{"id": 1}', b'{"id": 2}', b"{"], pa.binary())
    columns = parse_schema({"id": "bigint"})
    found = read_objects(values.slice(1, 2), columns)
    assert found.to_pylist() == [{"id": 1}, {"id": 2}]
    # Spark passes these with `spark.sql.execution.arrow.useLargeVarTypes`.
    assert read_objects(values.cast(pa.large_binary()).slice(1, 2), columns).equals(found)
