from __future__ import annotations

import base64
import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_extensions.cdc.debezium.changed_columns_errors import WidenedColumnError
from hybrid_extensions.cdc.debezium.unchanged_long_values import PLACEHOLDER
from sources.common.conversion import BadValue
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import RowDecoder
from sources.errors import InputError
from tests.properties import examples
from tests.sources.decoding.value_case import ORIGIN, changes_source, decoded

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(12,2)",
    "at": "timestamp",
    "day": "date",
    "raw": "binary",
}
ROW = {
    "id": 7,
    "name": "tea",
    "price": "12.50",
    "at": "2024-01-01T00:00:00.000001Z",
    "day": 19_723,
    "raw": base64.b64encode(b"\x00\xff").decode(),
}
# As in Debezium's documentation of its MySQL connector.
MYSQL = {
    "connector": "mysql",
    "name": "mysql-server-1",
    "ts_ms": 1_465_491_411_815,
    "snapshot": "false",
    "db": "public",
    "table": "orders",
    "server_id": 223_344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
}
# As Kafka Connect's JsonConverter describes the columns of this table.
SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int64"},
                {
                    "field": "price",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2", "connect.decimal.precision": "12"},
                },
                {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
            ],
        }
    ],
}


def source(**more: Any) -> KafkaSource:
    return changes_source(**{"schema": COLUMNS, **more})


def envelope(op: str = "c", origin: dict[str, Any] | None = None, **row: Any) -> dict[str, Any]:
    side = "before" if op == "d" else "after"
    return {
        "before": None,
        "after": None,
        side: {**ROW, **row},
        "source": {**ORIGIN, **(origin or {})},
        "op": op,
        "ts_ms": 1_704_067_200_500,
    }


def read(document: Any, declared: KafkaSource | None = None) -> dict[str, Any]:
    (row,) = decoded(declared or source(), json.dumps(document).encode())
    return row


def with_schema(payload: dict[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "payload": payload}


def test_a_change_becomes_the_row_that_it_leaves() -> None:
    assert read(envelope("u")) == {
        "id": 7,
        "name": "tea",
        "price": Decimal("12.50"),
        "at": datetime(2024, 1, 1, microsecond=1, tzinfo=UTC),
        "day": date(2024, 1, 1),
        "raw": b"\x00\xff",
    }


def test_a_delete_becomes_the_row_that_it_removes() -> None:
    declared = source(include={"gone": "deleted", "what": "op"})
    row = read(envelope("d", name=None), declared)
    assert (row["id"], row["name"], row["gone"], row["what"]) == (7, None, True, "d")
    assert read(envelope("c"), declared)["gone"] is False


def test_the_envelope_fills_columns() -> None:
    parts = {
        "_op": "op",
        "_lsn": "lsn",
        "_tx": "transaction",
        "_at": "committed_at",
        "_position": "position",
    }
    row = read(envelope("u"), source(include=parts))
    assert [row[name] for name in parts] == [
        "u",
        1040,
        771,
        datetime(2024, 1, 1, microsecond=123_000, tzinfo=UTC),
        f"{1000:016x}{1040:016x}",
    ]


def test_encodings_are_those_that_the_schema_of_the_record_tells() -> None:
    row = read(with_schema(envelope("u", price="JxA=", at=1_704_067_200_000_001)))
    assert (row["price"], row["at"]) == (
        Decimal("100.00"),
        datetime(2024, 1, 1, microsecond=1, tzinfo=UTC),
    )


def test_records_with_and_without_a_schema_may_follow_each_other() -> None:
    declared = source()
    decoder = RowDecoder(declared.reader(), declared.value_schema(COLUMNS))

    def prices(*documents: Any) -> list[Any]:
        # Written as Kafka Connect does: without blanks.
        values = [json.dumps(each, separators=(",", ":")).encode() for each in documents]
        return [decoder.decode(value)[2] for value in values]

    other = json.loads(json.dumps(SCHEMA).replace('"scale": "2"', '"scale": "1"'))
    coded = envelope("u", price="JxA=")
    # A text that looks like the end of a schema must not be taken for one.
    sly = envelope("u", name='x"},"payload":{"op":"d"')
    found = prices(
        with_schema(coded),
        with_schema(coded),
        {"schema": other, "payload": coded},
        sly,
        with_schema({**sly, "after": {**sly["after"], "price": "BOI="}}),
        with_schema(coded),
    )
    assert found == [
        Decimal("100.00"),
        Decimal("100.00"),
        Decimal("1000.00"),
        Decimal("12.50"),
        Decimal("12.50"),
        Decimal("100.00"),
    ]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_double_that_json_can_only_write_as_text_is_that_double(text: str) -> None:
    declared = source(schema={"one": "double", "other": "float", "many": "array<double>"})
    document = envelope()
    document["after"] = {"one": text, "other": text, "many": [text, None, 1.5]}
    found = read(document, declared)
    expected = float(text)
    assert repr(found) == repr({"one": expected, "other": expected, "many": [expected, None, 1.5]})


def test_the_largest_float_is_one_in_its_shortest_digits() -> None:
    declared = source(schema={"one": "float"})
    document = envelope()

    def of(number: float) -> Any:
        document["after"] = {"one": number}
        return pa.scalar(read(document, declared)["one"], pa.float32()).as_py()

    largest = 3.4028234663852886e38
    assert (of(3.4028235e38), of(-3.4028235e38)) == (largest, -largest)
    with pytest.raises(BadValue, match=r"3\.4028236e\+38 is not a valid float"):
        of(3.4028236e38)


def test_64_bits_are_a_decimal_or_a_number_below_2_to_the_63() -> None:
    bits = {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "64"}}
    fields = [{"field": name, **bits} for name in ("wide", "narrow")]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    document = envelope()
    document["after"] = {"wide": "//////////8=", "narrow": "BQAAAAAAAAA="}
    declared = source(schema={"wide": "decimal(20,0)", "narrow": "bigint"})
    found = read({"schema": schema, "payload": document}, declared)
    assert found == {"wide": 2**64 - 1, "narrow": 5}


@examples(100)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 30))
def test_a_decimal_of_any_size_is_exact(unscaled: int, scale: int) -> None:
    size = unscaled.bit_length() // 8 + 1
    text = base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode()
    declared = source(schema={"n": f"decimal(38,{scale})"})
    schema = json.loads(json.dumps(SCHEMA).replace('"scale": "2"', f'"scale": "{scale}"'))
    schema["fields"][0]["fields"][1]["field"] = "n"
    document = envelope()
    document["after"] = {"n": text}
    row = read({"schema": schema, "payload": document}, declared)
    assert row["n"].as_tuple() == pa.scalar(
        Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)),
        pa.decimal128(38, scale),
    ).as_py().as_tuple()  # fmt: skip


def test_a_decimal_without_bytes_is_no_zero() -> None:
    document = {"schema": SCHEMA, "payload": envelope(price="")}
    with pytest.raises(BadValue, match="`price`: a decimal without bytes is no number"):
        read(document)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"price": "JxA="},
            r"`price`: 'JxA=' is not a valid decimal: .*decimal.handling.mode=string",
        ),
        ({"price": 0.1 + 0.2}, r"`price`: 0.30\d+4 is a double, which may have other digits"),
        # It is 10000000000000000.01, too.
        ({"price": 1e16}, r"`price`: 1e\+16 is a double, which may have other digits"),
        ({"price": math.inf}, r"the value is not JSON|`price`: .* is not a valid decimal"),
        ({"at": "2024-01-01T00:00:00.123456789Z"}, r"`at`: '2024.*' can't be stored exactly"),
        (
            {"raw": "00ff"},
            r"`raw`: '00ff' may be hexadecimal .*`binary_handling_mode: hex`",
        ),
        ({"at": 1_704_067_200_000_001}, r"`at`: the unit of 17\d+ is unknown, as .*schemas"),
        ({"at": "noon"}, r"`at`: 'noon' is not a valid timestamp"),
        ({"at": 1.5}, r"`at`: 1\.5 is not a valid timestamp"),
        ({"price": "NaN"}, r"`price`: 'NaN' can't be stored as a decimal"),
        ({"day": "noon"}, r"`day`: 'noon' is not a valid date"),
        ({"day": 10**9}, r"`day`: 1000000000 days since 1970 are outside the years 1 to 9999"),
        ({"raw": "???"}, r"`raw`: '\?\?\?' is not valid base64"),
        ({"id": 2**63}, r"`id`: \d+ is not a valid bigint"),
        ({"name": PLACEHOLDER}, r"`name` is a long value .*REPLICA IDENTITY FULL"),
        (
            {"raw": base64.b64encode(PLACEHOLDER.encode()).decode()},
            r"`raw` is a long value .*REPLICA IDENTITY FULL",
        ),
    ],
)
def test_a_value_that_can_not_be_read_is_named(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        read(envelope("u", **change))


def test_a_number_that_the_schema_describes_is_no_time_of_an_unknown_unit() -> None:
    after = {"field": "after", "type": "struct", "fields": [{"field": "at", "type": "int64"}]}
    schema = {"type": "struct", "fields": [after]}
    with pytest.raises(BadValue, match=r"`at`: 5 is of type bigint in the change's schema"):
        read({"schema": schema, "payload": envelope(at=5)})


@pytest.mark.parametrize(
    ("mode", "written"),
    [
        (None, "+/8="),
        ("bytes", "+/8="),
        ("base64", "+/8="),
        ("base64-url-safe", "-_8="),
        ("hex", "fbff"),
    ],
)
def test_bytes_are_read_as_the_connector_is_declared_to_write_them(
    mode: str | None, written: str
) -> None:
    assert read(envelope(raw=written), source(binary_handling_mode=mode))["raw"] == b"\xfb\xff"


def test_bytes_that_look_like_hexadecimal_are_base64_where_that_is_declared() -> None:
    for mode in ("bytes", "base64"):
        found = read(envelope(raw="00ff00ff"), source(binary_handling_mode=mode))
        assert found["raw"] == base64.b64decode("00ff00ff")


def test_how_bytes_are_written_is_of_the_contract_only_if_it_is_another_way() -> None:
    meanings = [
        source(binary_handling_mode=mode).value.contract() for mode in (None, "bytes", "hex")
    ]
    assert meanings == [{"table": "public.orders"}] * 2 + [
        {"table": "public.orders", "binary": "hex"}
    ]


@pytest.mark.parametrize(("written", "digits"), [(12.5, "12.50"), (0.1, "0.10"), (1e2, "100.00")])
def test_a_decimal_that_the_connector_writes_as_a_double_is_its_digits(
    written: float, digits: str
) -> None:
    assert str(read(envelope(price=written))["price"]) == digits


def test_iso_texts_with_the_zone_of_utc_are_dates_and_times() -> None:
    row = read(envelope(day="2024-01-01Z", at="2024-01-01T10:00:00.120000000Z"))
    assert (row["day"], row["at"]) == (
        date(2024, 1, 1),
        datetime(2024, 1, 1, 10, 0, 0, 120_000, UTC),
    )


def test_items_of_arrays_are_encoded_as_the_schema_tells() -> None:
    decimal = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    }
    micros = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    fields = [
        {"field": "times", "type": "array", "items": micros},
        {"field": "prices", "type": "array", "items": decimal},
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    document = envelope()
    document["after"] = {"times": [1_704_067_200_000_001, None], "prices": ["JxA="]}
    declared = source(schema={"times": "array<timestamp>", "prices": "array<decimal(12,2)>"})
    assert read({"schema": schema, "payload": document}, declared) == {
        "times": [datetime(2024, 1, 1, microsecond=1, tzinfo=UTC), None],
        "prices": [Decimal("100.00")],
    }


@pytest.mark.parametrize("count", [1, 40])
def test_the_bytes_of_a_decimal_are_no_text(count: int) -> None:
    declared = source(schema={"price": "string"})
    document = envelope()
    document["after"] = {"price": None}
    values = [json.dumps(with_schema(document), separators=(",", ":")).encode()] * count
    values += [each.replace(b'"price":null', b'"price":"JxA="') for each in values]
    columns = declared.value_schema(declared.columns or {})
    decoder = RowDecoder(declared.reader(), columns)
    decoded = [row for row in decoder.rows(pa.array(values)).to_pylist() if row]
    assert not [row for row in decoded if row["price"]]
    with pytest.raises(BadValue, match=r"`price`: 'JxA=' is a decimal: declare .*decimal\(38,2\)"):
        decoder.decode(values[-1])


def test_an_envelope_of_an_old_version_tells_what_it_lacks_and_what_orders_it_as_well() -> None:
    declared = source(include={"seq": "position"})
    document = envelope()
    del document["source"]["sequence"]
    with pytest.raises(BadValue, match=r"lacks 'sequence'.*`include: \{_lsn: lsn\}` and `sink"):
        read(document, declared)
    # The way out.
    assert read(document, source(include={"_lsn": "lsn"}))["_lsn"] == 1040


class TestLongValuesThatAnUpdateLeftAsTheyWere:
    DECLARED: ClassVar[dict[str, Any]] = {
        "schema": {**COLUMNS, "tags": "array<string>"},
        "include": {"kept": "unchanged"},
    }
    RAW = base64.b64encode(PLACEHOLDER.encode()).decode()
    CODES: ClassVar[list[int]] = [*PLACEHOLDER.encode()]
    # Of Debezium's pull request 4778.
    NAME_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"

    def test_they_are_named_and_null(self) -> None:
        lacking: dict[str, Any] = {"name": PLACEHOLDER, "raw": self.RAW, "tags": [PLACEHOLDER]}
        row = read(envelope("u", **lacking), source(**self.DECLARED))
        assert [row[name] for name in lacking] == [None, None, None]
        assert row["kept"] == [("name", None), ("raw", None), ("tags", None)]
        assert row["price"] == Decimal("12.50")

    @pytest.mark.parametrize(
        ("kind", "written"),
        [
            ("array<int>", CODES),
            ("array<bigint>", CODES),
            ("array<double>", [float(code) for code in CODES]),
            ("array<date>", CODES),
            ("array<string>", [NAME_UUID]),
            ("array<binary>", [RAW]),
            ("map<string,string>", {PLACEHOLDER: PLACEHOLDER}),
            ("string", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
            ("string", NAME_UUID),
            ("string", PLACEHOLDER.encode().hex()),
            ("string", RAW),
        ],
    )
    def test_each_type_has_a_placeholder_of_its_own(self, kind: str, written: Any) -> None:
        declared = source(schema={"id": "bigint", "v": kind}, include={"kept": "unchanged"})
        document = envelope("u")
        document["after"] = {"id": 7, "v": written}
        assert read(document, declared) == {"id": 7, "v": None, "kept": [("v", None)]}
        # Many are decoded together.
        value = json.dumps(document).encode()
        columns = declared.value_schema(declared.declared_columns or {})
        decoder = RowDecoder(declared.reader(), columns)
        assert not [row for row in decoder.rows(pa.array([value] * 20)).to_pylist() if row]

    @pytest.mark.parametrize("declared", ["~gone~", "hex:7e676f6e657e"])
    def test_the_connectors_own_placeholder_is_declared(self, declared: str) -> None:
        table = source(**self.DECLARED, unavailable_value_placeholder=declared)
        row = read(envelope("u", name="~gone~", tags=[PLACEHOLDER]), table)
        assert (row["kept"], row["tags"]) == ([("name", None)], [PLACEHOLDER])

    def test_a_placeholder_that_is_none_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"`hex:7` is not a placeholder: .*hexadecimal digits"):
            source(**self.DECLARED, unavailable_value_placeholder="hex:7")

    def test_a_sample_of_such_changes_lacks_no_column(self) -> None:
        declared = source(**self.DECLARED)
        value = json.dumps(envelope("u", name=PLACEHOLDER, tags=None)).encode()
        assert {*declared.value_columns} <= {*declared.reader().fields(value)}

    def test_a_change_with_all_values_names_none(self) -> None:
        assert read(envelope("u", tags=None), source(**self.DECLARED))["kept"] is None

    @pytest.mark.parametrize(
        ("op", "change", "reason"),
        [
            ("c", {"name": PLACEHOLDER}, "`name` .* gave the row another key, so neither .* FULL"),
            ("u", {"price": PLACEHOLDER}, "`price` .* a column of text, bytes, an array or a map"),
        ],
        ids=["moved", "other type"],
    )
    def test_one_that_no_row_of_the_key_has_is_bad(
        self, op: str, change: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(BadValue, match=reason):
            read(envelope(op, tags=None, **change), source(**self.DECLARED))

    def test_without_a_column_for_them_the_record_is_bad_and_says_what_to_declare(self) -> None:
        with pytest.raises(BadValue, match=r"`sink.unchanged: _unchanged` in a new generation"):
            read(envelope("u", name=PLACEHOLDER))

    def test_a_select_could_compute_from_what_is_lacking(self) -> None:
        with pytest.raises(ValueError, match=r"`include.kept: unchanged` has no meaning with `sel"):
            source(**self.DECLARED, select={"id": "id"})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "^the value is not a JSON object"),
        ({"schema": SCHEMA, "payload": None}, "^the `payload` of the value is not a JSON object"),
        ({"id": 7}, "not a change envelope"),
        (with_schema({"id": 7}), "not a change envelope"),
        (envelope("m"), "op 'm' is not one of c, u, r, d"),
        ({**envelope("u"), "after": None}, "a change of op u has no `after`"),
        ({**envelope("d"), "before": None}, "has no `before`: run ALTER TABLE .* REPLICA IDENTITY"),
        ({**envelope("d", {"connector": "mysql"}), "before": None}, "op d has no `before`$"),
        (envelope("u", {"table": "lines"}), "of table `public.lines`, not of `public.orders`"),
        (
            envelope("u", {"schema": None, "db": None, "table": None}),
            "of no table, not of `public.orders`",
        ),
    ],
)
def test_what_is_no_change_of_the_table_is_bad(document: Any, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        read(document)


def test_a_truncate_stops_the_run_and_is_not_passed_over() -> None:
    document = {**envelope("u"), "op": "t", "after": None}
    with pytest.raises(InputError, match=r"`public.orders` was truncated") as caught:
        read(document)
    assert caught.value.fields == {"table": "public.orders", "value": "t"}
    assert "declare `on_truncate: follow`" in caught.value.hint
    new_snapshot, new_generation = (caught.value.hint.find(step) for step in ("new snap", "begin"))
    assert 0 < new_snapshot < new_generation


def test_a_truncate_that_is_followed_is_a_delete_without_a_key() -> None:
    document = {**envelope("u"), "op": "t", "after": None}
    parts = {"gone": "deleted", "committed": "committed_at", "seq": "position"}
    declared = source(include=parts, on_truncate="follow")
    row = read(document, declared)
    assert row["gone"]
    assert row["seq"] == read(envelope("u"), declared)["seq"]
    assert row["committed"] == read(envelope("u"), declared)["committed"]
    assert not any(row[name] for name in COLUMNS)


class TestColumnsThatChange:
    def test_an_added_one_stops_the_run_and_is_not_lost_silently(self) -> None:
        with pytest.raises(InputError, match=r"a column `discount` that is not declared") as found:
            read(envelope("u", discount=3))
        assert "ignored_columns" in str(found.value)
        assert "added_columns" in str(found.value)

    def test_several_are_named_at_once_with_all_that_is_to_be_declared(self) -> None:
        described = json.loads(json.dumps(SCHEMA))
        described["fields"][0]["fields"] += [
            {"field": "discount", "type": "int32", "default": 7},
            {"field": "note", "type": "string"},
            {
                "field": "rate",
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "9"},
            },
            {"field": "since", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        ]
        row: dict[str, Any] = {"discount": 1, "note": "x", "rate": "AQ==", "since": 0}
        row |= {"price": "JxA=", "at": 0}
        with pytest.raises(InputError, match=r"columns `discount`, `note`, `rate`, `si") as it:
            read({"schema": described, "payload": envelope("u", **row)})
        declared = (
            "`added_columns: {discount: {type: int, default: 7}, note: string, "
            'rate: "decimal(9,2)", since: timestamp}`'
        )
        assert declared in it.value.hint
        assert "'public.orders'::regclass AND attname = 'discount'" in it.value.hint
        document = envelope("u", note="x", extra=2)
        del document["after"]["name"], document["after"]["raw"]
        with pytest.raises(InputError, match=r"no longer has `name`, `raw`") as both:
            read(document)
        assert (
            "{note: <type>, extra: <type>}` and `dropped_columns: [name, raw]`" in both.value.hint
        )

    def test_an_added_one_may_be_left_out(self) -> None:
        row = read(envelope("u", discount=3), source(ignored_columns=["discount"]))
        assert "discount" not in row

    @pytest.mark.parametrize(
        ("kind", "default", "value"),
        [
            ("int", None, None),
            ("bigint", 3, 3),
            ("boolean", False, False),
            ("decimal(12,2)", "0.1", Decimal("0.10")),
            ("decimal(12,2)", 0.1, Decimal("0.10")),
            ("date", "2024-01-01", date(2024, 1, 1)),
            ("timestamp", "2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
            ("string", "", ""),
        ],
    )
    def test_older_changes_have_the_default_of_one_that_was_added(
        self, kind: str, default: Any, value: Any
    ) -> None:
        declared = source(added_columns={"more": {"type": kind, "default": default}})
        assert read(envelope("u"), declared)["more"] == value
        assert read(envelope("u", more=None), declared)["more"] is None

    def test_of_one_without_a_default_they_have_null(self) -> None:
        declared = source(added_columns={"discount": "int"})
        assert read(envelope("u"), declared)["discount"] is None
        assert read(envelope("u", discount=3), declared)["discount"] == 3

    def test_a_default_that_is_not_declared_stops_the_run(self) -> None:
        described = json.loads(json.dumps(SCHEMA))
        described["fields"][0]["fields"].append(
            {"field": "discount", "type": "int32", "default": 5}
        )
        document = {"schema": described, "payload": envelope("u", price="JxA=", at=0, discount=3)}
        with pytest.raises(
            InputError, match=r"`discount` of .* has a default \(5 as Deb.*\)"
        ) as it:
            read(document, source(added_columns={"discount": "int"}))
        assert "'public.orders'::regclass AND attname = 'discount'" in it.value.hint
        assert it.value.fields["table"] == "public.orders"
        assert it.value.fields["column"] == "discount"
        for default in (5, None):
            added = {"discount": {"type": "int", "default": default}}
            assert read(document, source(added_columns=added))["discount"] == 3

    def test_a_dropped_one_stops_the_run_and_may_be_null_from_there_on(self) -> None:
        document = envelope("u")
        del document["after"]["name"]
        with pytest.raises(InputError, match=r"no longer has the column `name` of the `schema`"):
            read(document)
        declared = source(dropped_columns=["name"])
        assert read(document, declared)["name"] is None
        assert read(envelope("u"), declared)["name"] == "tea"

    def test_a_renamed_one_is_taken_for_what_it_may_be(self) -> None:
        document = envelope("u", title="tea")
        del document["after"]["name"]
        with pytest.raises(InputError, match=r"has a column `title` .* no longer has `name`") as it:
            read(document)
        told = "If `name` was renamed to `title`: declare `renamed_columns: {name: title}`"
        assert told in it.value.hint

    def test_a_renamed_one_keeps_the_name_of_the_schema(self) -> None:
        declared = source(renamed_columns={"name": ["title", "label"]})
        described = json.loads(json.dumps(SCHEMA))
        for name in ("name", "title", "label"):
            document = envelope("u", price="JxA=", at=0)
            document["after"][name] = document["after"].pop("name")
            row = read({"schema": described, "payload": document}, declared)
            assert (row["name"], "title" in row, "label" in row) == ("tea", False, False)

    def test_the_encoding_of_a_renamed_one_is_that_of_its_new_name(self) -> None:
        described = json.loads(json.dumps(SCHEMA))
        described["fields"][0]["fields"][1]["field"] = "cost"
        document = envelope("u", at=0)
        document["after"]["cost"] = "JxA="
        del document["after"]["price"]
        value = {"schema": described, "payload": document}
        assert read(value, source(renamed_columns={"price": "cost"}))["price"] == Decimal("100.00")

    def test_one_that_has_both_its_names_stops_the_run(self) -> None:
        said = "has the columns `.*`, which `renamed_columns` declares as names of one"
        with pytest.raises(InputError, match=said) as stopped:
            read(envelope("u", title="x"), source(renamed_columns={"name": "title"}))
        assert "`name`" in stopped.value.message
        assert "`title`" in stopped.value.message

    def test_an_added_one_may_be_renamed_or_dropped_as_well(self) -> None:
        added = {"note": {"type": "string", "default": "-"}}
        with pytest.raises(InputError, match=r"has a column `remark` .* no longer has `note`"):
            read(envelope("u", remark="x"), source(added_columns=added))
        dropped = source(added_columns=added, dropped_columns=["note"])
        assert read(envelope("u"), dropped)["note"] is None

    @pytest.mark.parametrize(
        ("column", "kind", "value"),
        [
            ("id", "int", 2**31),
            ("price", "decimal(4,2)", "100.00"),
            ("price", "decimal(11,1)", "0.25"),
        ],
    )
    def test_a_value_that_needs_a_wider_type_is_told_apart_where_types_are_followed(
        self, column: str, kind: str, value: Any
    ) -> None:
        declared = source(schema={**COLUMNS, column: kind}, on_schema_change="follow")
        with pytest.raises(WidenedColumnError, match=f"is declared as {re.escape(kind)}") as caught:
            read(envelope("u", **{column: value}), declared)
        assert f"`widened_columns: {{{column}: <type>}}`" in caught.value.hint
        assert caught.value.fields["position"] == "00000000000003e80000000000000410"
        wider = source(
            schema={**COLUMNS, column: kind},
            widened_columns={column: COLUMNS[column]},
            on_schema_change="follow",
        )
        assert str(read(envelope("u", **{column: value}), wider)[column]) == str(value)
        # What is no number of any width is a bad record, as ever.
        with pytest.raises(BadValue):
            read(envelope("u", price="NaN"), declared)

    @pytest.mark.parametrize("follows", ["follow", "stop"])
    def test_no_digit_of_a_float_that_became_a_double_is_lost_or_made_up(
        self, follows: str
    ) -> None:
        def of(kind: str) -> dict[str, Any]:
            described = json.loads(json.dumps(SCHEMA))
            described["fields"][0]["fields"].append({"field": "rate", "type": kind})
            return {"schema": described, "payload": envelope("u", price="JxA=", at=0, rate=0.3)}

        narrow = {"schema": {**COLUMNS, "rate": "float"}, "on_schema_change": follows}
        assert read(of("float"), source(**narrow))["rate"] == 0.3
        with pytest.raises(WidenedColumnError, match=r"a double in column `rate`"):
            read(of("double"), source(**narrow))
        wide = source(**narrow, widened_columns={"rate": "double"})
        assert read(of("double"), wide)["rate"] == 0.3
        # As the database converts what was there before.
        assert read(of("float"), wide)["rate"] == 0.30000001192092896

    def test_of_a_float_that_the_schema_calls_a_double_the_values_tell(self) -> None:
        described = json.loads(json.dumps(SCHEMA))
        described["fields"][0]["fields"].append({"field": "rate", "type": "double"})
        declared = source(schema={**COLUMNS, "rate": "float"})

        def of(rate: float | None) -> Any:
            payload = envelope("u", price="JxA=", at=0, rate=rate)
            payload["source"] = {**MYSQL, "connector": "mariadb", "gtid": "0-1-1"}
            return read({"schema": described, "payload": payload}, declared)["rate"]

        # Of `float(7,2)`, with the digits of either kind.
        for held in (12345.67, 12345.669921875, 0.0, -1.5, None):
            assert of(held) == held
        for wide in (12345.678901, 1e300):
            with pytest.raises(WidenedColumnError, match=r"in column `rate`, which is declared as"):
                of(wide)

    def test_a_widened_one_is_noticed_with_the_first_value_that_does_not_fit(self) -> None:
        declared = source(schema={**COLUMNS, "id": "int"})
        assert read(envelope("u"), declared)["id"] == 7
        with pytest.raises(BadValue, match=r"`id`: 2147483648 is not a valid int: .* widened"):
            read(envelope("u", id=2**31), declared)
        document = with_schema(envelope("u", id=2**31, price="JxA=", at=0))
        with pytest.raises(BadValue, match=r"was widened \(bigint in the change\)"):
            read(document, declared)


class TestPositions:
    PARTS = source(include={"p": "position"})

    def of(self, op: str = "u", **origin: Any) -> str:
        return str(read(envelope(op, origin), self.PARTS)["p"])

    def test_transactions_come_as_they_were_committed_not_as_their_rows_were_written(self) -> None:
        # The first one's row was written last but committed first.
        first, second = self.of(sequence='["100","190"]'), self.of(sequence='["200","150"]')
        assert first < second
        assert self.of(sequence='["200","151"]') > second

    def test_rows_of_the_first_snapshot_come_before_all_changes(self) -> None:
        snapshot = self.of("r", snapshot="last", sequence='[null,"5000"]')
        assert snapshot < self.of(sequence='[null,"40"]')

    def test_rows_of_an_incremental_snapshot_come_where_the_stream_is(self) -> None:
        row = self.of("r", snapshot="incremental", sequence='["100","190"]')
        assert self.of(sequence='["100","180"]') < row < self.of(sequence='["200","150"]')

    def mysql(self, op: str = "u", **origin: Any) -> str:
        document = envelope(op)
        document["source"] = {**MYSQL, **origin}
        return str(read(document, self.PARTS)["p"])

    def test_mysql_by_file_and_position_then_by_their_place_in_the_topic(self) -> None:
        places = [("mysql-bin.999999", 4), ("mysql-bin.1000000", 4), ("mysql-bin.1000000", 31)]
        found = [self.mysql(file=file, pos=pos) for file, pos in places]
        assert found == sorted(found)
        assert len(set(found)) == len(found)
        assert self.mysql("r", snapshot="true") < found[0]
        # Whatever row it is of an event: in a compressed transaction these begin again.
        assert self.mysql(row=7) == self.mysql(row=0)

    def mariadb(self, op: str = "u", parts: Any = None, **origin: Any) -> str:
        document = {**envelope(op), **(parts or {})}
        document["source"] = {**MYSQL, "connector": "mariadb", "gtid": "0-1-117", **origin}
        return str(read(document, self.PARTS)["p"])

    def test_mariadb_by_transaction_whatever_server_wrote_it_where(self) -> None:
        found = [
            self.mariadb(file="binlog.000009", pos=9000),
            self.mariadb(file="binlog.000009", pos=9000, row=1),
            self.mariadb(file="binlog.000009", pos=9400),
            self.mariadb(gtid="0-2-118", file="binlog.000001", pos=4),
            self.mariadb(gtid="0-2-1118", file="binlog.000001", pos=4),
        ]
        assert found == sorted(found)
        assert len(set(found)) == len(found)
        assert self.mariadb("r", snapshot="first", gtid=None) < found[0]

    def test_the_rest_of_a_transaction_comes_later_in_whatever_way_it_is_read(self) -> None:
        # Debezium counts from one again if it is started in the midst of a transaction.
        first = self.mariadb(parts={"transaction": {"total_order": 900}}, pos=9000)
        second = self.mariadb(parts={"transaction": {"total_order": 1}}, pos=9400)
        moved = self.mariadb(parts={"failover": "1"}, file="binlog.000001", pos=40)
        again = self.mariadb(parts={"failover": "10"}, file="binlog.000001", pos=4)
        assert first < second < moved < again < self.mariadb(gtid="0-2-118", pos=4)

    @pytest.mark.parametrize("gtid", [None, "", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"])
    def test_a_change_of_mariadb_without_its_transaction_is_bad(self, gtid: str | None) -> None:
        with pytest.raises(BadValue, match="contains no position"):
            self.mariadb(gtid=gtid)

    def test_of_another_database_they_are_not_known(self) -> None:
        with pytest.raises(BadValue, match="`position` is not supported for connector `oracle`"):
            self.of(connector="oracle")

    def test_an_envelope_without_one_is_bad(self) -> None:
        with pytest.raises(BadValue, match="contains no position"):
            self.of(sequence=None)


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"table": None}, "`format: debezium` needs a `schema`, and the `table`"),
        ({"schema": None}, "`format: debezium` needs a `schema`, and the `table`"),
        ({"added_columns": {"id": "int"}}, "`added_columns`: there is a column `id` already"),
        ({"added_columns": {"x": "number"}}, "`number` is not a column type"),
        (
            {"added_columns": {"x": {"type": "int", "default": "a"}}},
            "`default: a` is not a valid int",
        ),
        ({"added_columns": {"x": "int"}, "select": {"id": "id"}}, "no meaning with `select`"),
        ({"dropped_columns": ["x"]}, "`dropped_columns`: no column `x` is declared"),
        ({"renamed_columns": {"x": "y"}}, "`renamed_columns`: no column `x` is declared"),
        ({"renamed_columns": {"name": "id"}}, "`id`, the new name of column `name`, is the name"),
        (
            {"renamed_columns": {"name": ["a", "b"], "price": "b"}},
            "`b`, the new name of column `price`, is the name",
        ),
        ({"ignored_columns": ["id"]}, "`ignored_columns`: column `id` is declared"),
        ({"format": "json"}, "`table` has no meaning with `format: json`"),
        (
            {"format": "json", "table": None, "include": {"gone": "deleted"}},
            "`include.gone: deleted` is available with `format: debezium` only",
        ),
        (
            {"include": {"_lsn": "lsn"}, "schema": {**COLUMNS, "_lsn": "string"}},
            "`include._lsn: lsn` is of type bigint",
        ),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(change: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        source(**change)
