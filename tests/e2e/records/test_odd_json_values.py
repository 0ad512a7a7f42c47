"""Odd values of JSON, nested in every way: the audit reads of topics what runs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.readers.text_rows.json_rows import parse_json
from hybrid_extensions.audit.readers.text_rows.json_values import OF_TOPICS
from hybrid_extensions.comparison.duckdb_database import duckdb_types, open_database
from sources.common.schema import parse_type
from tests.e2e.records.json_records import read_records
from tests.hybrid_extensions.audit.test_topic_values import DATES, DECIMALS, DOUBLES, TEXTS, TIMES
from tests.random_tables.both_readers import comparable

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

LEAVES = {
    "boolean": ["true", '"true"', "1", '""'],
    "tinyint": ["127", "128", "-129", "1.0", '"1"', "true"],
    "int": ['"\\ud800"', "1", "-0", "1.0", "1e2", '"1"', "2147483648", "[1]", "{}", "NaN"],
    "bigint": ["9223372036854775807", "9223372036854775808", '"7"', '""'],
    "float": [*DOUBLES, "1e38", '""'],
    "double": [*DOUBLES, "-0", "-0.0", '"nan"', '"+Infinity"', '"+INF"', '" 1"'],
    "decimal(12,2)": [*DECIMALS, "NaN", '"1,234.5"', '"+1"', "1e2", '".5"', "9999999999.995"],
    "decimal(38,10)": ["1e20", "1e27", "1e28", "0.12345678905", "-1e-11"],
    "timestamp": [
        *TIMES,
        "-1",
        "true",
        '"2024-02-30"',
        '"2024-01-01T12:00:00+02"',
        '"12:00"',
        '"T12:00"',
        '" 9:5:1.5"',
        '"12:00:00+02:00"',
        '"\\u0031\\u0032:00"',
        '"\\u000912:00"',
    ],
    "date": [*DATES, "19000", '"2024-1-5"', '"2024-02-30"', '"2024-01-01 12:00:00+05:00"'],
    "string": [*TEXTS, '{"b": 1.50,  "c": [ ]}', '"\\u00e9"', "-0", '{"k": "\\u001f\\n"}', "[NaN]"],
    "binary": ['"AAE="', '"AA"', '"A A E="', '" AAE=AAE= "', '"_-8="', '""', "1"],
}
SHAPES = {
    "%s": "%s",
    "array<%s>": "[null, %s]",
    "struct<x:%s>": '{"x": %s}',
    "array<struct<m:map<string,%s>>>": '[{"m": {"k": %s}}]',
}
DOUBLED = {
    "struct<x:int>": [
        '{"x": 1, "x": 2}', '{"x": 1, "x": "z"}', '{"x": "z", "x": 1}', '{"y": 1, "y": 2}', "[]",
        '[{"x": 1}]', '""', "{}",
    ],
    "struct<x:int,y:struct<z:int>>": [
        '{"y": {"z": 1, "z": 2}}', '{"y": {"z": 1}, "y": null}', '{"y": null, "y": {"z": 2}}',
        '{"y": {"z": 1}, "y": {}}', '{"y": []}',
    ],
    "array<struct<x:int>>": ['[{"x": 1, "x": 2}]', '{"x": 1}', "[[]]", "[null]"],
    "map<string,string>": ['{"a": {"b": 1.50}}', '{"a": 1e22}', '{"a": {"x": 1, "x": 2}}'],
}  # fmt: skip
WHOLE = [
    "{'c0': true}", "{'c10': 'it\\'s \"x\"'}", '{"c10": "it\\\'s"}', '{"c5": -INF}',
    '{"c3": "z", "c3": 1}', '{"c3": 1, "c3": "z"}', '{"c3": 1} rest {', '{"c10": "\\ud800"}',
    '{"c10": {\'b\': \'c\'}}', "{c3: 1}", '{"c3": 1, "more": "tab\tinside"}',
]  # fmt: skip


def members(shape: str) -> tuple[dict[str, str], list[str]]:
    """Columns of many types, and records with a value of one of them."""
    kinds = [shape % kind for kind in LEAVES]
    texts = [[SHAPES[shape] % text for text in of] for of in LEAVES.values()]
    if shape == "%s":
        kinds += DOUBLED
        texts += DOUBLED.values()
    records = [f'{{"c{at}": {text}}}' for at, of in enumerate(texts) for text in of]
    whole = WHOLE if shape == "%s" else []
    return {f"c{at}": kind for at, kind in enumerate(kinds)}, [*records, *whole]


def by_audit(folder: Path, columns: dict[str, str], values: list[str]) -> dict[int, dict[str, Any]]:
    """Rows of the values that the audit does not take for bad, by their place."""
    with open_database(folder, "1GB") as connection:
        connection.execute("CREATE TABLE records (place INT, _value VARCHAR, _reason VARCHAR)")
        places = pa.array(range(len(values)), pa.int32())
        records = pa.table(
            [places, pa.array(values), pa.nulls(len(values), pa.string())], ["place", "v", "r"]
        )
        connection.register("given", records)
        connection.execute("INSERT INTO records SELECT * FROM given")
        parse_json(connection, "records", "rows", duckdb_types(columns), OF_TOPICS)
        found = connection.sql("SELECT * EXCLUDE (_reason) FROM rows WHERE _reason IS NULL")
        table = found.to_arrow_table()
    return shown(table)


def shown(table: pa.Table) -> dict[int, dict[str, Any]]:
    """Rows by their place, without nulls."""
    rows = {}
    for row in table.to_pylist():
        at = row.pop("place")
        kinds = {name: table.schema.field(name).type for name in row}
        rows[at] = {n: comparable(v, kinds[n]) for n, v in row.items() if v is not None}
    return rows


@pytest.mark.parametrize("shape", SHAPES)
def test_audit_and_run_read_unusual_json_values_alike(
    spark: SparkSession, tmp_path: Path, shape: str
) -> None:
    columns, values = members(shape)
    kinds = pa.schema([(name, parse_type(kind)) for name, kind in columns.items()])
    read = read_records(spark, tmp_path / "run", [value.encode() for value in values], columns)
    by_run = {
        at: {n: comparable(v, kinds.field(n).type) for n, v in row.items() if v is not None}
        for at, row in read.items()
    }
    (tmp_path / "audit").mkdir()
    found = by_audit(tmp_path / "audit", columns, values)
    different = {
        value: (by_run.get(at, "bad"), found.get(at, "bad"))
        for at, value in enumerate(values)
        if by_run.get(at) != found.get(at)
    }
    assert different == {}
    assert 0.4 < len(by_run) / len(values) < 0.8
