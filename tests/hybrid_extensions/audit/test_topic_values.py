"""JSON records that Spark reads in its own way: the audit reads them so, too, without Spark.

What is right was printed by ``from_json`` of Spark 4.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.audit.computed.proven_expressions import NotProvenError
from hybrid_extensions.audit.readers.text_rows.json_rows import parse_json
from hybrid_extensions.audit.readers.text_rows.json_values import OF_TOPICS
from hybrid_extensions.comparison.duckdb_database import duckdb_types, open_database

BAD = object()
DOUBLES = {
    "1e400": BAD,
    "-1e400": BAD,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
    "Inf": BAD,
    "-NaN": BAD,
    "INF": BAD,
    '"NaN"': math.nan,
    '"Infinity"': math.inf,
    '"INF"': BAD,
    '"1e400"': BAD,
    '"1.5"': BAD,
    "1e39": 1e39,
    "null": None,
    "true": BAD,
}
DECIMALS = {
    "1.239": "1.24",
    "-1.235": "-1.24",
    "1e-77": "0.00",
    "123e-10000000": "0.00",
    '"1.239"': "1.24",
    "1e20": BAD,
    "true": BAD,
    '"x"': BAD,
    '" 1.5"': BAD,
}
TEXTS = {
    "1e22": "1.0E22",
    "0.10": "0.1",
    "1.0": "1.0",
    "-1e-5": "-1.0E-5",
    "12345678.5": "1.23456785E7",
    "7": "7",
    "1e-400": "0.0",
    "-1e-400": "-0.0",
    "1e400": '"Infinity"',
    "NaN": '"NaN"',
    "-9223372036854775809": "-9223372036854775809",
    "true": "true",
    '"1e22"': "1e22",
    "[1, 2]": "[1,2]",
}
NOON = "2024-01-01 12:00:00+00:00"
TIMES = {
    '"2024-01-01T24:00:00Z"': BAD,
    '"2024-01-01 24:00:00"': BAD,
    '"2024-01-01T23:59:60Z"': BAD,
    '"2024-01-01T23:59:59.5Z"': "2024-01-01 23:59:59.500000+00:00",
    '"2024-01-01T23:59:59+23"': BAD,
    '"2024-01-01T23:59:59 UTC"': "2024-01-01 23:59:59+00:00",
    '"2024-01-01T12"': NOON,
    '"2024-01-01T12Z"': BAD,
    '"2024-01-01T12:00Z"': BAD,
    '"2024-01-01T12:"': BAD,
    '"2024-01-01T12:00:00.Z"': NOON,
    '"2024-01-01T12:00:00+18:00"': "2023-12-31 18:00:00+00:00",
    '"2024-01-01T12:00:00+18:01"': BAD,
    '"2024-01-01T12:00:00+24:00"': BAD,
    '"2024-01-01T12:00:00+0260"': BAD,
    '"2024-01-01T14:00:00+2"': NOON,
    '"2024-01-01T13:00:00 Europe/Berlin"': NOON,
    '"2024-01-01T14:00:00GMT+2"': NOON,
    '"2024-01-01T12:00:00 Nowhere"': BAD,
    '"2024"': "2024-01-01 00:00:00+00:00",
    '"2024-1-1 "': "2024-01-01 00:00:00+00:00",
    '"epoch"': BAD,
    "1": "1970-01-01 00:00:01+00:00",
    # 2**58 seconds are 2**64 microseconds times 15,625, and one second more.
    "288230376151711745": "1970-01-01 00:00:01+00:00",
    "9223372036854775808": BAD,
    "1.5": BAD,
}
DATES = {
    '"2024-01-01T12Z"': "2024-01-01",
    '"2024-01-01Tat noon"': "2024-01-01",
    '"2024-01"': "2024-01-01",
    '"2024-01-01Z"': BAD,
    '"epoch"': BAD,
}
OBJECTS = {
    '{"a": 1} x': 1,
    ' {"a": 1}{"a": 2}': 1,
    '{"a": 1, "a": 2}': 2,
    '{"a": 1, "b": {"c": "x"}, "a": null}': None,
    '{"a": 1, "more": "Inf, -NaN"}': 1,
    '{"a": 1, "more": Inf}': BAD,
    '{"a": 1, "more": NaN}': 1,
    '{"A": 1}': None,
    '{"a": 01}': BAD,
    '{"a": 1,}': BAD,
    "[1] x": BAD,
    '{"a": ' + "[" * 100_000: BAD,
    '{"a": 1, "more": ' + "[" * 999 + "]" * 999 + "}": 1,
    '{"a": 1, "more": ' + "[" * 1000 + "]" * 1000 + "}": BAD,
    '{"a": 1, "more": "' + "[" * 2000 + '", "flat": [' + "[]," * 2000 + "[]]}": 1,
}


def by_audit(folder: Path, kind: str, values: list[str]) -> list[Any]:
    """The value of ``a`` in each record, or BAD."""
    types = duckdb_types({"a": kind})
    with open_database(folder, "1GB") as connection:
        connection.execute("CREATE TABLE records (number INT, _value VARCHAR, _reason VARCHAR)")
        numbered = [[number, value, None] for number, value in enumerate(values)]
        connection.executemany("INSERT INTO records VALUES (?, ?, ?)", numbered)
        parse_json(connection, "records", "rows", types, OF_TOPICS)
        found = connection.execute(
            'SELECT CASE WHEN _reason IS NULL THEN "a" END, _reason FROM rows ORDER BY number'
        ).fetchall()
    return [value if reason is None else BAD for value, reason in found]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("double", DOUBLES),
        ("timestamp", TIMES),
        ("date", DATES),
        ("decimal(12,2)", DECIMALS),
        ("string", TEXTS),
    ],
)
def test_members_of_json_are_read_as_by_the_runs(
    tmp_path: Path, kind: str, texts: dict[str, Any]
) -> None:
    found = by_audit(tmp_path, kind, [f'{{"a": {text}}}' for text in texts])
    shown = [value if value is BAD else json.dumps(value, default=str) for value in found]
    right = [value if value is BAD else json.dumps(value) for value in texts.values()]
    assert dict(zip(texts, shown, strict=True)) == dict(zip(texts, right, strict=True))


def test_objects_of_json_are_read_as_by_the_runs(tmp_path: Path) -> None:
    found = by_audit(tmp_path, "bigint", [*OBJECTS])
    assert dict(zip(OBJECTS, found, strict=True)) == OBJECTS


@pytest.mark.parametrize("kind", ["map<string,int>", "array<map<string,int>>"])
def test_a_map_with_a_name_twice_is_not_proven(tmp_path: Path, kind: str) -> None:
    entries = '{"once": 0, "k": 1, "k": 2}'
    value = entries if kind.startswith("map") else f"[{entries}]"
    with pytest.raises(NotProvenError, match="a map has the name 'k' twice"):
        by_audit(tmp_path, kind, [f'{{"a": {value}}}'])


NESTED_DECIMALS = {
    '{"n": 1.239, "s": "x"}': "1.24",
    '{"n": 1e-77, "s": "x"}': "0.00",
    '{"n": 5E1, "s": "x"}': "50.00",
    '{"n": 1e20, "s": "x"}': BAD,
    '{"n": 1.00500000000000000000000000000000001, "s": "x"}': "1.01",
}


def test_a_decimal_next_to_a_text_is_read_as_one_of_its_own(tmp_path: Path) -> None:
    texts = [f'{{"a": {text}}}' for text in NESTED_DECIMALS]
    found = by_audit(tmp_path, "struct<n:decimal(12,2),s:string>", texts)
    shown = [value if value is BAD else str(value["n"]) for value in found]
    assert dict(zip(NESTED_DECIMALS, shown, strict=True)) == NESTED_DECIMALS
