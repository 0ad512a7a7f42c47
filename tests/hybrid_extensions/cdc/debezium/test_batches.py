"""Envelopes that are decoded together become the rows that they become alone, or are left."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.cdc.debezium import batches
from hybrid_extensions.cdc.debezium.unchanged_long_values import PLACEHOLDER
from sources.common.conversion import BadValue, to_arrow_array
from sources.decoding.json.shapes import JsonShapes
from sources.decoding.row_decoder import RowDecoder
from sources.errors import InputError
from tests.properties import examples
from tests.sources.decoding.value_case import ORIGIN, changes_source

KINDS = {
    "id": "bigint",
    "small": "smallint",
    "name": "string",
    "price": "decimal(12,2)",
    "at": "timestamp",
    "day": "date",
    "raw": "binary",
    "paid": "boolean",
    "rate": "double",
    "narrow": "float",
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "id": {"type": "int64"},
    "small": {"type": "int16"},
    "name": {"type": "string"},
    "price": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    "at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "day": {"type": "int32", "name": "io.debezium.time.Date"},
    "raw": {"type": "bytes"},
    "paid": {"type": "boolean"},
    "rate": {"type": "double"},
    "narrow": {"type": "float"},
}
INCLUDE = {
    "_position": "position",
    "_committed_at": "committed_at",
    "_deleted": "deleted",
    "_op": "op",
    "_lsn": "lsn",
    "_transaction": "transaction",
    "_unchanged": "unchanged",
}
MARIADB = {
    "connector": "mariadb",
    "name": "shop",
    "ts_ms": 1_465_491_411_815,
    "snapshot": None,
    "db": "public",
    "table": "orders",
    "gtid": "0-1-117",
    "file": "binlog.000003",
    "pos": 484,
    "row": 3,
}
MYSQL = {**MARIADB, "connector": "mysql", "gtid": "0a7f6a3c-8f0e-11f0-9a3e-0242ac110002:23"}
BYTES = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode())
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [PLACEHOLDER, '":', '\\":', 'a":{"b', "NaN", '{"id":1,', "\\", "é😀", ',"name":', "\n"]
    ),
)
PLAIN: dict[str, Any] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**15), 2**15 - 1),
    "name": TEXTS,
    "price": BYTES,
    "at": st.integers(-(10**15), 10**15),
    "day": st.integers(-10_000, 100_000),
    "raw": BYTES,
    "paid": st.booleans(),
    "rate": st.floats(allow_nan=False, allow_infinity=False),
    "narrow": st.floats(width=32, allow_nan=False, allow_infinity=False),
}
ODD = st.one_of(
    st.none(),
    TEXTS,
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.just({"scale": 2, "value": "JxA="}),
    st.just([1]),
)


@pytest.fixture(autouse=True)
def _small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "FEWEST", 1)
        yield


def decoder(**more: Any) -> RowDecoder:
    declared = changes_source(KINDS, include=INCLUDE, **more)
    columns = declared.current(declared.columns_after({}))
    return RowDecoder(declared.reader(), declared.value_schema(columns))


def alone(of: RowDecoder, value: bytes) -> list[Any] | None:
    try:
        return of.decode(value)
    except (BadValue, InputError):
        return None


def check(values: list[bytes], **more: Any) -> int:
    """Compare all rows; return how many were decided together."""
    of = decoder(**more)
    rows = of.rows(pa.array(values, pa.binary()))
    assert len(rows) == len(values)
    decided = np.flatnonzero(~rows.is_null().to_numpy(zero_copy_only=False))
    for at in decided.tolist():
        expected = alone(of, values[at])
        assert expected is not None, values[at]
        for field, value in zip(rows.type, expected, strict=True):
            found = rows.field(rows.type.get_field_index(field.name))[at]
            kept = to_arrow_array([value], field.type)[0]
            # NaN is not equal to itself, and -0.0 is to 0.0.
            assert repr(found) == repr(kept), (field.name, values[at])
    return len(decided)


def written(envelope: dict[str, Any], *, has_schema: bool, escapes: bool = False) -> bytes:
    side = envelope["before"] if envelope["op"] == "d" else envelope["after"]
    fields = [{"field": name} | SCHEMAS.get(name, {"type": "string"}) for name in side or {}]
    document: Any = envelope
    if has_schema:
        schema = {"type": "struct", "fields": [{"field": "after", "fields": fields}]}
        document = {"schema": schema, "payload": envelope}
    if escapes:
        return json.dumps(document, separators=(",", ":")).encode()
    # Whole numbers beyond 64 bits are written by the standard library alone.
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


@st.composite
def envelopes(draw: st.DrawFn, *, odd: bool) -> dict[str, Any]:
    # One odd value leaves all that are parsed with it undecided.
    odd = odd and draw(st.integers(0, 11)) == 0
    row = {
        name: draw(ODD if odd and draw(st.integers(0, 3)) == 0 else st.none() | each)
        for name, each in PLAIN.items()
    }
    if odd and draw(st.booleans()):
        del row[draw(st.sampled_from(sorted(row)))]
    if odd and draw(st.booleans()):
        row["more"] = 1
    op = draw(st.sampled_from(["c", "u", "u", "d", "r", *("tx" if odd else "")]))
    origin = dict(draw(st.sampled_from([ORIGIN, MARIADB, MYSQL])))
    origin["ts_ms"] = draw(st.integers(0, 2_000_000_000_000))
    if odd:
        for name in ("sequence", "gtid", "snapshot", "lsn", "table", "txId"):
            if name in origin and draw(st.integers(0, 3)) == 0:
                origin[name] = draw(st.sampled_from(["true", "last", None, "x", 5]))
    side = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    if op == "u" and draw(st.booleans()):
        side["before"] = row
    order = {"id": "x", "total_order": draw(st.integers(1, 9))}
    moved = draw(st.sampled_from([None, None, "1", "12", 3, "9999", "x"]))
    return {
        **side,
        **({} if moved is None else {"failover": moved}),
        "source": origin,
        "transaction": draw(st.none() | st.just(order)),
        "op": op,
        "ts_ms": 1,
    }


@examples(150)
@given(st.lists(envelopes(odd=True), min_size=1, max_size=12), st.booleans(), st.booleans())
def test_whatever_is_decided_together_is_what_it_is_alone(
    found: list[dict[str, Any]], has_schema: bool, escapes: bool
) -> None:
    check([written(each, has_schema=has_schema, escapes=escapes) for each in found])


@examples(60)
@given(
    st.lists(envelopes(odd=False), min_size=1, max_size=12),
    st.lists(st.integers(0, 400), max_size=3),
    st.sampled_from([b"", b"}", b" ", b'"', b"\\", b'":', b",", b"{", b"\x00", b"1"]),
)
def test_damaged_values_are_never_decided_otherwise(
    found: list[dict[str, Any]], places: list[int], damage: bytes
) -> None:
    values = [written(each, has_schema=False) for each in found]
    for number, place in enumerate(places):
        at = number % len(values)
        values[at] = values[at][:place] + damage + values[at][place + 1 :]
    check(values)


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("origin", [ORIGIN, MARIADB, MYSQL])
def test_ordinary_changes_are_decided_together(has_schema: bool, origin: dict[str, Any]) -> None:
    row = {
        "id": 1,
        "small": 2,
        "name": "té\u2028",
        "price": "JxA=" if has_schema else "100.00",
        "at": 5 if has_schema else "2024-01-01T00:00:00Z",
        "day": 19_000,
        "raw": "AP8=",
        "paid": True,
        "rate": 1.5,
        "narrow": 0.1,
    }
    values = []
    for number in range(100):
        op = "crud"[number % 4]
        now = {**row, "id": number, "name": None if number % 7 == 0 else f"n{number}"}
        side = {"before": now if op == "d" else None, "after": None if op == "d" else now}
        envelope = {**side, "source": {**origin, "ts_ms": number}, "transaction": None, "op": op}
        values.append(written(envelope, has_schema=has_schema))
    assert check(values) == 100


def test_a_column_that_some_changes_lack_or_have_besides_is_not_passed_over() -> None:
    def change(number: int, **more: Any) -> dict[str, Any]:
        row = {**dict.fromkeys(KINDS), "id": number, **more}
        return {"before": None, "after": row, "source": ORIGIN, "transaction": None, "op": "c"}

    lacking = change(3)
    del lacking["after"]["name"]
    found = [change(1), lacking, change(2), change(4, more=1)]
    values = [written(each, has_schema=False) for each in found]
    rows = decoder().rows(pa.array(values, pa.binary()))
    assert rows.is_null().to_pylist() == [False, True, False, True]
    assert alone(decoder(), values[1]) is None
    assert check(values, dropped_columns=["name"], ignored_columns=["more"]) == 4
    assert check([values[3]], added_columns={"more": {"type": "int", "default": 7}}) == 1


def test_a_payload_counts_however_it_and_its_schema_are_written() -> None:
    """Members that look like an envelope's beside it do not, nor are they decided together."""

    def spelled(number: int, *, is_first: bool) -> bytes:
        row = {**dict.fromkeys(KINDS), "id": number}
        change = {"before": None, "after": row, "source": ORIGIN, "transaction": None, "op": "c"}
        inside = {"payload": {**change, "after": {**row, "id": -number}}, "schema": {"fields": []}}
        return json.dumps({**inside, **change} if is_first else {**change, **inside}).encode()

    values = [spelled(number, is_first=number % 2 == 0) for number in range(1, 20)]
    assert -1 in decoder().decode(values[0])
    assert check(values) == 0


def test_objects_with_the_same_members_elsewhere_are_not_alike() -> None:
    texts = [
        b'{"a":{"b":1,"c":"x"},"d":null}',
        b'{"a":{"b":2,"c":"\\":"},"d":5}',
        b'{"a":{"b":1},"c":"x","d":null}',
        b'{"a":null,"b":1,"c":"x","d":null}',
        b'{"a":{"b":1,"c":"x","d":null}}',
        b'{"a":{"c":1,"b":"x"},"d":null}',
        b'{"a": {"b":1,"c":"x"},"d":null}',
        b'{"a" :{"b":1,"c":"x"},"d":null}',
        b'{"A":{"b":1,"c":"x"},"d":null}',
    ]
    found = JsonShapes(pa.array(texts, pa.binary())).like(0).tolist()
    assert found == [True, True, False, False, False, False, False, False, False]
