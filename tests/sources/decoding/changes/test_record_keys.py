"""By which columns the keys of records identify rows, and the first record that is of others."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sources.decoding.changes.record_keys import RecordKeys
from tests.sources.decoding.value_case import changes_source

COLUMNS = {"id": "bigint", "line": "int", "name": "string"}


def keys(**more: Any) -> RecordKeys:
    table = changes_source(COLUMNS, **more).changes
    assert table is not None
    return RecordKeys(table)


def plain(**columns: Any) -> bytes:
    return json.dumps(columns, separators=(",", ":")).encode()


def with_schema(**columns: Any) -> bytes:
    fields = [{"field": name, "type": "int64"} for name in columns]
    schema = {"type": "struct", "fields": fields, "optional": False}
    return json.dumps({"schema": schema, "payload": columns}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (plain(id=1), ["id"]),
        (with_schema(line=2, id=1), ["id", "line"]),
        # Nobody's key, and no reason to fail.
        (plain(schema=1, payload=2), None),
        # A TRUNCATE has none.
        (None, None),
        (b"7", None),
        (b"{", None),
        (b"\xff", None),
    ],
)
def test_the_names_of_a_key_are_told_where_it_has_some(
    key: bytes | None, names: list[str] | None
) -> None:
    assert keys().names(key) == names


def test_a_renamed_column_is_the_one_that_it_was() -> None:
    renamed = keys(renamed_columns={"id": ["number", "order_id"]})
    assert renamed.names(plain(order_id=1, line=2)) == ["id", "line"]


@pytest.mark.parametrize("write", [plain, with_schema])
def test_the_first_record_that_other_columns_identify_is_found(write: Any) -> None:
    many = [write(id=n, line=n % 9) for n in range(500)]
    expected = ["id", "line"]
    assert keys().first_other(pa.array([*many, b"text"], pa.binary()), expected) is None
    for other in (write(id=5), write(id=5, line=1, name="x")):
        # Whatever comes after it.
        values = [None, *many[:249], other, *many[250:], None, write(name="y")]
        found = keys().first_other(pa.array(values, pa.binary()), expected)
        assert found is not None
        at, error = found
        assert at == 250
        assert "of the source database's table `public.orders` was changed" in error.message
        assert "were by `id`, `line`" in error.message
        assert "`hybrid generation new P`" in error.hint


def test_many_shapes_are_all_looked_at() -> None:
    values = [plain(**{f"c{n}": 1}) for n in range(50)] + [plain(id=1)]
    found = keys().first_other(pa.array(values, pa.binary()), ["c0"])
    assert found is not None
    assert found[0] == 1
    written = [json.dumps({"id": n}).encode() for n in range(50)]
    assert keys().first_other(pa.array([*written, plain(id=1)], pa.binary()), ["id"]) is None
    assert keys().first_other(pa.array([], pa.binary()), ["id"]) is None
