"""Placeholders of long values that a run takes for values: the audit finds them by itself."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from hybrid_extensions.audit.readers.values.lacking_values import LackingValues
from hybrid_extensions.cdc.debezium.unchanged_long_values import PLACEHOLDER, Placeholder
from sources.common.conversion import BadValue
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import RowDecoder
from tests.sources.decoding.value_case import ORIGIN, changes_source, framed, registry

CODES = [*PLACEHOLDER.encode()]


def change(written: Any) -> bytes:
    after = {"id": 1, "v": written}
    return json.dumps({"before": None, "after": after, "source": ORIGIN, "op": "u"}).encode()


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("string", PLACEHOLDER),
        ("array<string>", [PLACEHOLDER]),
        ("array<bigint>", CODES),
        ("array<date>", CODES),
        ("array<double>", [float(code) for code in CODES]),
        ("array<string>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("map<string,string>", {PLACEHOLDER: PLACEHOLDER}),
    ],
)
def test_a_run_that_takes_one_for_a_value_is_found_wrong(
    kind: str, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = changes_source({"id": "bigint", "v": kind}, include={"kept": "unchanged"})
    columns = source.value_schema(source.declared_columns or {})
    check = LackingValues.of_source(source)
    assert check is not None

    def audited() -> None:
        decoded = RowDecoder(source.reader(), columns).decode(change(written))
        check.refuse_placeholders(change(written), dict(zip(columns.names, decoded, strict=True)))

    audited()
    monkeypatch.setattr(Placeholder, "stands_for", lambda *_: False)
    with pytest.raises(BadValue, match="`v`: a placeholder of the connector was taken for a value"):
        audited()


def test_values_that_only_contain_it_are_values() -> None:
    check = LackingValues(PLACEHOLDER)
    for written in (f"{PLACEHOLDER}s", [PLACEHOLDER, "b"], CODES[:-1]):
        check.refuse_placeholders(change(written), {"id": 1, "v": written})


def test_the_declared_placeholder_counts() -> None:
    check = LackingValues("hex:7e")
    with pytest.raises(BadValue, match="placeholder"):
        check.refuse_placeholders(change("~"), {"id": 1, "v": "~"})
    check.refuse_placeholders(change(PLACEHOLDER), {"id": 1, "v": PLACEHOLDER})


def test_a_declared_placeholder_beyond_ascii_is_found_in_signed_bytes() -> None:
    # As Java has bytes: the highest bit is the sign.
    numbers = [126, -1, -128]
    check = LackingValues("hex:7eff80")
    with pytest.raises(BadValue, match="placeholder"):
        check.refuse_placeholders(change(numbers), {"id": 1, "v": numbers})
    others = [126, 255, 128]
    check.refuse_placeholders(change(others), {"id": 1, "v": others})


def test_only_changes_can_lack_values() -> None:
    source = KafkaSource.model_validate({"type": "kafka", "name": "live", "topic": "t"})
    assert LackingValues.of_source(source) is None


@pytest.mark.parametrize(
    ("kind", "written"),
    [("bytes", PLACEHOLDER.encode()), ({"type": "array", "items": "int"}, CODES)],
)
def test_those_of_changes_in_avro_are_found_too(kind: Any, written: Any) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": kind}]}
    schema = {"type": "record", "name": "E", "fields": [{"name": "after", "type": row}]}
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"after": {"v": written}})
    with registry() as server:
        value = framed(server.register(schema), out.getvalue())
        source = changes_source({"v": "binary"}, registry={"url": server.url})
        check = LackingValues.of_source(source)
        assert check is not None
        check.refuse_placeholders(value, {"v": None})
        with pytest.raises(BadValue, match="`v`: a placeholder"):
            check.refuse_placeholders(value, {"v": written})
