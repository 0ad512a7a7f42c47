"""JSON lines that Arrow makes no rows of are read as Spark's `from_json` reads them."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.json as pa_json
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.text_files.json.lines import JsonLines
from sources.common.schema import parse_schema
from sources.formats.file_regions import Region
from sources.formats.lines import BadRow
from sources.formats.open_file import read_region
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

STORES = Stores(S3Settings())


def read(folder: Path, kind: str, *values: str) -> tuple[list[Any], list[BadRow]]:
    """Values of the good rows of lines with one member, and the bad rows."""
    path = folder / "x.json"
    path.write_text("".join(f'{{"x": {value}}}\n' for value in values))
    bad: list[BadRow] = []
    region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
    columns = parse_schema({"x": kind})
    batches = read_region(JsonLines(), region, columns, STORES, bad.append)
    return [row["x"] for batch in batches for row in batch.to_pylist()], bad


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("map<string,bigint>", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("map<string,array<date>>", '{"": ["2024-02-29"]}', [("", [date(2024, 2, 29)])]),
        ("struct<d:date,n:decimal(9,2)>", '{"d": "0001-01-01"}', {"d": date(1, 1, 1), "n": None}),
        ("array<date>", '["9999-12-31", null]', [date(9999, 12, 31), None]),
        ("date", '"2024-01-31T10:00:00.000"', date(2024, 1, 31)),
        ("date", '"2024-01-31 10:00"', date(2024, 1, 31)),
        ("double", '"Infinity"', math.inf),
        ("double", '"-INF"', -math.inf),
        ("float", "1.5", 1.5),
        # The highest float, as most tools write it, is more than that as a double.
        ("map<string,float>", '{"k": -3.4028235e38}', [("k", -3.4028234663852886e38)]),
        ("array<float>", '["+INF", 0.5]', [math.inf, 0.5]),
        ("array<decimal(9,2)>", '[1.5, "2.25", 3]', None),
        ("array<timestamp>", '["2024-01-01 10:00:00.5+02:00"]', [
            datetime(2024, 1, 1, 8, 0, 0, 500_000, UTC)
        ]),
        ("map<string,struct<x:map<string,int>>>", '{"k": {"x": {"y": 7}}}', [
            ("k", {"x": [("y", 7)]})
        ]),
    ],
)  # fmt: skip
def test_a_value_is_what_spark_makes_of_it(
    tmp_path: Path, kind: str, value: str, wanted: Any
) -> None:
    found, bad = read(tmp_path, kind, value)
    assert bad == []
    if wanted is None:
        assert [str(each) for each in found[0]] == ["1.50", "2.25", "3.00"]
    else:
        assert found == [wanted]


WRITTEN = ["1", "-0", "12345678901234567890123", "1.50", "1e5", "true", "false", "null", '"1"']


def test_a_number_in_the_place_of_a_text_is_what_was_written(tmp_path: Path) -> None:
    texts = [None if each == "null" else each.strip('"') for each in WRITTEN]
    assert read(tmp_path, "string", *WRITTEN) == (texts, [])
    listed = f"[{', '.join(WRITTEN)}]"
    found, bad = read(tmp_path, "struct<n:bigint,t:array<string>>", f'{{"n": 7, "t": {listed}}}')
    assert (found, bad) == ([{"n": 7, "t": texts}], [])
    found, bad = read(tmp_path, "map<string,string>", '{"k": 1.0}')
    assert (found, bad) == ([[("k", "1.0")]], [])


@pytest.mark.spark
def test_a_number_in_the_place_of_a_text_is_that_of_sparks_reader(
    tmp_path: Path, spark: SparkSession
) -> None:
    found, _ = read(tmp_path, "string", *WRITTEN)
    rows = spark.read.schema("x string").json(str(tmp_path / "x.json")).collect()
    assert found == [row.x for row in rows]


def test_a_text_for_no_number_is_one(tmp_path: Path) -> None:
    found, bad = read(tmp_path, "double", '"NaN"', "NaN", "1")
    assert bad == []
    assert [math.isnan(each) for each in found] == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("map<string,int>", "[1]", r"\[1\] is not a valid map<string,int>"),
        ("map<string,int>", '{"a": 1.5}', "is not a valid int"),
        ("map<string,int>", '{"a": 1, "a": 2}', "the member 'a' is there twice"),
        ("array<date>", '["2024-02-30"]', "day is out of range"),
        ("array<date>", "[20240101]", "20240101 is not a valid date"),
        ("double", '"inf"', "'inf' is not a valid double"),
        ("double", '"1.5"', "'1.5' is not a valid double"),
        ("map<string,double>", '{"a": 1e400}', "is not a valid double"),
        ("map<string,decimal(5,2)>", '{"a": 1.234}', r"is not a valid decimal\(5,2\)"),
        ("map<string,string>", '{"a": "\\ud800"}', "one half of a pair of surrogates"),
        (
            "map<string,double>",
            f'{{"a": 1e{"9" * 30}}}',
            "it has a number .* too large an exponent",
        ),
        ("map<string,string>", "[" * 100_000, "^it is nested more than 1,000 levels"),
        ("map<string,int>", '{"a": 1' + "0" * 5000 + "}", "it has a number with too many digits"),
    ],
)
def test_a_value_that_does_not_fit_makes_a_bad_row(
    tmp_path: Path, kind: str, value: str, reason: str
) -> None:
    good = json.dumps(None)
    found, bad = read(tmp_path, kind, good, value, good)
    assert found == [None, None]
    (row,) = bad
    assert re.search(reason, row.reason)
    assert row.offset == len(f'{{"x": {good}}}\n')


def test_bytes_are_base64(tmp_path: Path) -> None:
    found, bad = read(tmp_path, "binary", '"AQI="', '"***"', "7")
    assert found == [b"\x01\x02"]
    assert len(bad) == 2


def test_good_lines_that_python_reads_are_not_looked_for_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    by_arrow = pa_json.read_json

    def counted(*arguments: Any) -> Any:
        parsed.append(1)
        return by_arrow(*arguments)

    monkeypatch.setattr(pa_json, "read_json", counted)
    found, bad = read(tmp_path, "date", *['"2024-01-05T00:00:00Z"'] * 20_000)
    assert (len(found), bad) == (20_000, [])
    assert len(parsed) < 20


@pytest.mark.parametrize("kind", ["timestamp", "array<timestamp>", "map<string,timestamp>"])
def test_texts_of_times_are_those_of_iso_8601_and_some_that_spark_does_not_take(
    tmp_path: Path, kind: str
) -> None:
    shape = {"timestamp": '"%s"', "array<timestamp>": '["%s"]'}.get(kind, '{"k": "%s"}')
    good = ["2024-01-01T12", "2024-01-01 12:00Z", "2024-01-01T12:00:00+23:59", "2024-01-01"]
    bad = ["2024-1-5", "2024", "2024-01-01T12:00:00+02:60", "2024-01-01T12:00:00+24:00"]
    bad += ["2024-01-01 12:00:00 Europe/Berlin", "2024-01-01T12:00:00UTC"]
    values, refused = read(tmp_path, kind, *(shape % text for text in [*good, *bad]))
    assert (len(values), len(refused)) == (len(good), len(bad))


def test_digits_after_those_of_microseconds_are_cut_off_as_by_spark(tmp_path: Path) -> None:
    texts = ['"1969-12-31T23:59:59.9999999Z"', '"2024-01-01 12:00:00.123456789+02:00"']
    assert read(tmp_path, "timestamp", *texts) == (
        [
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2024, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC),
        ],
        [],
    )


@pytest.mark.parametrize(("text", "sign"), [("-0", 1), ("-0.0", -1), ("0", 1), ("-0e1", -1)])
@pytest.mark.parametrize("kind", ["double", "array<double>", "map<string,double>"])
def test_the_integer_zero_has_no_sign(tmp_path: Path, kind: str, text: str, sign: int) -> None:
    around = {"double": "%s", "array<double>": "[%s]"}.get(kind, '{"k": %s}')
    (value,), bad = read(tmp_path, kind, around % text)
    if isinstance(value, list):
        value = value[0][1] if isinstance(value[0], tuple) else value[0]
    assert (math.copysign(1, value), bad) == (sign, [])
