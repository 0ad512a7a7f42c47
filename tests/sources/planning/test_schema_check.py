"""History and topic must agree on their columns: shown side by side where they don't."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sources.common.positions import TopicPartition
from sources.common.schema import parse_schema
from sources.common.topic_log import LogRecord
from sources.decoding.json.single_objects import JsonReader
from sources.errors import InputError
from sources.planning.schema_check import (
    check_key,
    check_sequence,
    compare_declared,
    compare_sample,
)

COLUMNS = parse_schema({"id": "bigint", "at": "timestamp", "v": "double", "name": "string"})
GOOD: dict[str, Any] = {"id": 1, "at": "2024-01-01T00:00:00Z", "v": 1, "name": "x"}


def record(value: Any, offset: int = 0) -> LogRecord:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return LogRecord(TopicPartition("t", 2), offset, 0, text)


def refusal(*values: Any) -> str:
    with pytest.raises(InputError) as caught:
        compare_sample("history", COLUMNS, [record(value) for value in values], JsonReader())
    return str(caught.value)


def test_records_that_fit_pass_nulls_and_unknown_fields_too() -> None:
    values = [GOOD, {**GOOD, "v": None, "name": None}, {**GOOD, "more": [1]}]
    compare_sample("history", COLUMNS, [record(value) for value in values], JsonReader())


def test_an_empty_topic_proves_nothing_and_passes() -> None:
    compare_sample("history", COLUMNS, [], JsonReader())


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("id", "1", 'bigint    | string, as in "1"'),
        ("id", 1.5, "bigint    | number, as in 1.5"),
        ("id", True, "bigint    | boolean, as in true"),
        ("at", 1704067200000, "timestamp | integer, as in 1704067200000"),
        ("at", "yesterday", 'timestamp | string, as in "yesterday"'),
        ("v", "12 min", 'double    | string, as in "12 min"'),
        ("name", 7, "string    | integer, as in 7"),
    ],
)
def test_a_type_that_does_not_fit_is_shown_beside_the_one_expected(
    field: str, value: Any, shown: str
) -> None:
    text = refusal({**GOOD, field: value})
    assert "source `history`" in text
    assert "topic `t`" in text
    assert shown.split("|")[1].strip() in text
    assert shown.split("|", maxsplit=1)[0].strip() in text


def test_a_column_that_no_record_has_is_shown_with_the_fields_nobody_asked_for() -> None:
    other = {name: GOOD[name] for name in GOOD if name != "v"}
    text = refusal({**other, "value": 1})
    assert "(missing)" in text
    assert "value" in text


@pytest.mark.parametrize("value", [b"no json", b"[1]", b"null"])
def test_a_value_that_is_no_json_object_is_named_by_its_offset(value: bytes) -> None:
    with pytest.raises(InputError, match="Topic `t`, partition 2, offset 9: the value"):
        compare_sample("history", COLUMNS, [record(value, offset=9)], JsonReader())


def test_declared_columns_are_compared_side_by_side() -> None:
    other = parse_schema({"id": "string", "at": "timestamp", "v": "double"})
    with pytest.raises(InputError) as caught:
        compare_declared("history", COLUMNS, "live", other)
    lines = [line.split("|") for line in caught.value.message.splitlines()[2:]]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["id", "bigint", "string"],
        ["name", "string", "(missing)"],
    ]


def test_a_key_column_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"no column `nr`.*the source has id, at, v, name"):
        check_key(COLUMNS, ["id", "nr"], "history")


def test_a_log_position_that_is_no_integer_is_named_with_its_type() -> None:
    check_sequence(COLUMNS, "id", "history")
    with pytest.raises(InputError) as caught:
        check_sequence(COLUMNS, "name", "history")
    assert caught.value.message == (
        "`sequence`: column `name` of source `history` is of type string, but log positions are "
        "integers."
    )
