"""What Arrow reads of a topic's JSON is what Spark reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl, parse_schema
from sources.decoding.json.batches import read_objects
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.parse_records import parse_values
from tests.e2e.case import Case, as_json, live_of, wrong
from tests.e2e.in_session import run_and_audit
from tests.e2e.records.json_records import parsed_records, read_records
from tests.properties import examples
from tests.sources.decoding.json_case import COLUMNS, PLAIN, UNUSUAL, UNUSUAL_VALUES, documents

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
SCHEMA = parse_schema(COLUMNS)


def by_spark(
    spark: SparkSession, values: list[bytes | None], columns: pa.Schema
) -> list[list[Any] | None]:
    """The columns of each value, to the bit; None if it is bad."""
    frame = spark.createDataFrame(pa.table({"value": pa.array(values, pa.binary())}))
    schema = f"{ddl(columns)}, corrupt string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    parsed = frame.select(F.from_json(F.col("value").cast("string"), schema, options).alias("row"))
    bad = (F.col("row").isNull() | F.col("row.corrupt").isNotNull()).alias("bad")
    table = parsed.select("row.*", bad).drop("corrupt").toArrow()
    rows = bits(table.select(columns.names).to_struct_array().combine_chunks(), columns)
    marks = table["bad"].to_pylist()
    return [None if is_bad else row for row, is_bad in zip(rows, marks, strict=True)]


def by_arrow(values: list[bytes | None], columns: pa.Schema) -> list[list[Any] | None]:
    """The same; None if it is left to Spark."""
    return bits(read_objects(pa.array(values, pa.binary()), columns), columns)


def bits(rows: pa.StructArray, columns: pa.Schema) -> list[list[Any] | None]:
    raw = {pa.float64(): pa.int64(), pa.date32(): pa.int32(), SCHEMA.field("at").type: pa.int64()}
    fields = [
        field.cast(kind).view(raw.get(kind, kind)).to_pylist()
        for field, kind in zip(rows.flatten(), columns.types, strict=True)
    ]
    nulls = rows.is_null().to_pylist()
    each = zip(*fields, strict=True)
    return [None if is_null else list(row) for row, is_null in zip(each, nulls, strict=True)]


def compare(spark: SparkSession, values: list[bytes | None], columns: pa.Schema) -> int:
    """Compare what both read; tells how many Arrow read."""
    alone = [row for value in values for row in by_arrow([value], columns)]
    together = by_arrow(values, columns)
    different = [
        (value, theirs, mine)
        for value, theirs, *ours in zip(
            values, by_spark(spark, values, columns), alone, together, strict=True
        )
        for mine in ours
        if mine is not None and mine != theirs
    ]
    assert different == []
    return sum(row is not None for row in alone)


@pytest.mark.parametrize("kind", PLAIN)
def test_every_odd_text_of_a_member(spark: SparkSession, kind: str) -> None:
    texts = [*PLAIN[kind], *UNUSUAL]
    columns = parse_schema({"v": kind})
    values: list[bytes | None] = [f'{{"v": {text}}}'.encode() for text in texts]
    assert compare(spark, values, columns) >= len(PLAIN[kind])


def test_every_odd_value(spark: SparkSession) -> None:
    assert compare(spark, UNUSUAL_VALUES, SCHEMA) > 10


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents(), min_size=20, max_size=80))
def test_damaged_documents(spark: SparkSession, values: list[bytes]) -> None:
    compare(spark, [*values], SCHEMA)


@pytest.mark.parametrize("kind", ["string", "array<string>"])
def test_bytes_that_are_no_text_make_a_bad_record_and_no_other_characters(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    bad = [b'{"v": null, "more": "\xff"}', b'{"v": null, "\xed\xa0\x80": 1}', b'{"v": null}\xc3']
    good = [b'{"v": null, "more": "\\ud800"}', '{"v": null, "more": "ü😀"}'.encode()]
    found = read_records(spark, tmp_path, [*bad, *good], {"v": kind})
    assert [*found] == [len(bad), len(bad) + 1]


LARGE = ["1e400", "-1e400", "1" + "0" * 309, "123456e305"]
FLOATS = ["1e39", "-3.5e38", "1" + "0" * 39]
NAMED = ["Infinity", "-Infinity", '"Infinity"', "NaN", "1.5e30", "1e-400", "0"]


def test_a_number_that_is_too_large_makes_a_bad_record_and_no_infinity(
    spark: SparkSession, tmp_path: Path
) -> None:
    shapes = {
        "double": "%s",
        "array<double>": "[%s]",
        "struct<a:map<string,double>>": '{"a": {"b": %s}}',
    }
    for number, (kind, shape) in enumerate([*shapes.items(), ("float", "%s")]):
        bad = LARGE + (FLOATS if kind == "float" else [])
        good = NAMED + ([] if kind == "float" else FLOATS)
        values = [f'{{"v": {shape % text}, "text": "Infinity"}}'.encode() for text in [*bad, *good]]
        found = read_records(spark, tmp_path / str(number), values, {"v": kind})
        assert [*found] == [*range(len(bad), len(values))], kind


def test_a_number_outside_of_tinyint_makes_a_bad_record_and_no_other_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = ["127", "-128", "null", "128", "255", "-129", "256"]
    for number, (kind, shape) in enumerate([("tinyint", "%s"), ("array<tinyint>", "[%s]")]):
        values = [f'{{"v": {shape % text}}}'.encode() for text in texts]
        found = read_records(spark, tmp_path / str(number), values, {"v": kind})
        right = [127, -128, None]
        assert found == {at: {"v": v if number == 0 else [v]} for at, v in enumerate(right)}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"id": 1, "v": 7, "w": "y"}', "`v` can't be read as struct<n:int>"),
        (b'{"id": "about ten", "v": null}', "`id` can't be read as bigint"),
        (b'{"id": 1, "at": "soon"}', "`at` can't be read as timestamp"),
        (b'{"id": 1, "v": ', "the value is no JSON object with the declared columns"),
    ],
)
def test_the_column_of_a_bad_record_is_named(
    spark: SparkSession, tmp_path: Path, value: bytes, told: str
) -> None:
    columns = {"id": "bigint", "v": "struct<n:int>", "w": "string"}
    with pytest.raises(PySparkException) as error:
        read_records(spark, tmp_path, [value], columns, on_bad_record="fail")
    assert report_of(error.value).message == f"Topic `t`, partition 0, offset 0: {told}."


@pytest.mark.parametrize("outside", ["fail", "keep"])
def test_a_bad_record_fails_also_a_transform_that_looks_at_no_column(
    spark: SparkSession, tmp_path: Path, outside: str
) -> None:
    values = [b'{"id": 1}', b"no object"]
    rows = parsed_records(spark, tmp_path, values, {"id": "bigint"}, "fail", outside)
    with pytest.raises(PySparkException) as error:
        rows.agg(F.count(F.lit(1))).collect()
    assert report_of(error.value).message.startswith("Topic `t`, partition 0, offset 1: ")


def test_a_value_is_parsed_once_whatever_the_transform_filters_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    columns = {"id": "bigint", "v": "double"}
    rows = parsed_records(spark, tmp_path, [b'{"id": 1, "v": 2}'], columns, "fail", "keep")
    rows = rows.where("id > 0").where(F.col("v") > 1).groupBy("id").agg(F.sum("v"))
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1


def test_times_without_a_zone_are_utc_whatever_zone_the_session_has(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history([1], files=1)
    loaded = case.pipeline()
    generation = loaded.open_generation(create=True)
    assert generation is not None
    columns = {"id": "bigint", "at": "timestamp", "v": "double"}
    value = b'{"id": 1, "at": "2024-03-31T02:30:00"}'
    raw = spark.sql(
        "SELECT 't' AS topic, 0 AS partition, 0L AS offset, current_timestamp() AS timestamp, "
        f"CAST('' AS BINARY) AS key, CAST('{value.decode()}' AS BINARY) AS value"
    )
    found = {}
    for zone in ("UTC", "Europe/Berlin"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            event_time = EventTimeCheck(loaded.pipeline.event_time)
            rows = parse_values(raw, live_of(loaded), columns, generation, event_time)
            found[zone] = rows.select(F.unix_seconds("at")).collect()[0][0]
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
    # In Berlin, this time was skipped; in files it is UTC, too.
    assert (
        found["UTC"]
        == found["Europe/Berlin"]
        == datetime(2024, 3, 31, 2, 30, tzinfo=UTC).timestamp()
    )


@pytest.mark.kafka
@pytest.mark.parametrize("on_bad_record", ["fail", "quarantine"])
def test_a_topic_that_both_have_to_read(
    tmp_path: Path, servers: str, spark: SparkSession, on_bad_record: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    left: list[bytes | None] = []
    for n in range(1100, 1300):
        text = as_json(n)
        if n % 3 == 0:
            left.append(f" {text}".encode())
        elif n % 50 == 0:
            # Nanoseconds, which Arrow refuses; Spark cuts them off.
            left.append(text.replace("Z", ".000000000Z").encode())
        producer.produce(case.topic, left[-1] if n % 3 == 0 or n % 50 == 0 else text.encode())
    assert producer.flush(30) == 0
    columns = parse_schema({"id": "bigint", "at": "timestamp", "v": "double"})
    assert by_arrow(left, columns) == [None] * len(left)
    loaded = case.pipeline(
        lambda document: document["sources"][1].update(on_bad_record=on_bad_record)
    )
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1300, {})
    assert report.ok
