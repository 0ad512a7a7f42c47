"""Every format of a topic's values, and event times on either side of their bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from sources.common.times import to_ms
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount
from spark_jobs.inside.driver.reports.collect_bad_records import Collector
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.parse_records import parse_values
from tests.e2e.case import live_of
from tests.e2e.in_session import fails_with
from tests.extensions import skip_without
from tests.minimal import minimal_pipeline
from tests.sources.decoding.value_case import MESSAGE, ORIGIN, descriptors, order_class

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
Format = Callable[[int, datetime | None], bytes]
RAW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
LOW, HIGH = datetime(2000, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
INSIDE = datetime(2024, 1, 1, tzinfo=UTC)
# A place in the log is the index; the first, those in the middle and the last are outside.
TIMES = [
    *[datetime(1970, 1, 1, tzinfo=UTC), INSIDE, None, LOW - MS, LOW],
    *[datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC), INSIDE, LOW + MS, HIGH - MS],
    *[HIGH, HIGH + MS, None, INSIDE, datetime(1, 1, 1, tzinfo=UTC), INSIDE],
    datetime(9999, 12, 31, tzinfo=UTC),
]
OUTSIDE = [0, 3, 5, 10, 13, 15]
INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": ["null", INSTANT]}],
}
UNREADABLE = b"\xff\xff?"


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")


def _json(number: int, at: datetime | None) -> bytes:
    return json.dumps({"id": number, "at": _text(at)}).encode()


def _avro(number: int, at: datetime | None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": number, "at": at})
    return out.getvalue()


def _protobuf(number: int, at: datetime | None) -> bytes:
    message: Any = order_class()(id=number)
    if at is not None:
        message.at.FromDatetime(at.replace(tzinfo=None))
    return bytes(message.SerializeToString())


def _debezium(number: int, at: datetime | None) -> bytes:
    """Every third change deletes its row; the event time is that of the commit."""
    row = {"id": number}
    change = {"before": None, "after": row, "op": "c"}
    if number % 3 == 0:
        change = {"before": row, "after": None, "op": "d"}
    origin = {**ORIGIN, "ts_ms": None if at is None else to_ms(at)}
    return json.dumps({**change, "source": origin}).encode()


SCHEMA = {"id": "bigint", "at": "timestamp"}
FORMATS: dict[str, tuple[dict[str, Any], Format]] = {
    "json": ({"schema": SCHEMA}, _json),
    "select": (
        {
            "schema": {"id": "bigint", "at": "string"},
            "select": {"id": "CAST(id AS bigint)", "at": "CAST(at AS timestamp)"},
        },
        _json,
    ),
    "avro": ({"schema": SCHEMA, "format": "avro", "avro_schema": "event.avsc"}, _avro),
    "protobuf": (
        {"schema": SCHEMA, "format": "protobuf", "descriptor": "shop.bin", "message": MESSAGE},
        _protobuf,
    ),
    "raw": (
        {
            "format": "raw",
            "select": {
                "id": "CAST(get_json_object(CAST(value AS string), '$.id') AS bigint)",
                "at": "CAST(get_json_object(CAST(value AS string), '$.at') AS timestamp)",
            },
        },
        _json,
    ),
    "debezium": (
        {
            "schema": {"id": "bigint", "at": "timestamp", "deleted": "boolean"},
            "format": "debezium",
            "table": "public.orders",
            "include": {"at": "committed_at", "deleted": "deleted"},
        },
        _debezium,
    ),
}


class Records:
    """A topic's records as Spark's Kafka source would return them, and the pipeline over them."""

    clock_ms: int | None = None

    def __init__(self, folder: Path, form: str) -> None:
        self.folder = folder
        skip_without(form)
        self.declared, self.value_of = FORMATS[form]
        (folder / "event.avsc").write_text(json.dumps(AVRO))
        (folder / "shop.bin").write_bytes(descriptors())

    def loaded(self, event_time: dict[str, Any], **source: Any) -> LoadedPipeline:
        return minimal_pipeline(
            self.folder,
            {
                "name": "live",
                "type": "kafka",
                "topic": "t",
                "start": "earliest",
                **self.declared,
                **source,
            },
            name="events",
            event_time={"column": "at", **event_time},
        )

    def write(self, times: list[datetime | None], extra: list[bytes] = [], files: int = 1) -> None:  # noqa: B006
        """Write records in ``files`` files, of which a stream reads one in a micro-batch."""
        values = [*(self.value_of(at, time) for at, time in enumerate(times)), *extra]
        count = len(values)
        table = pa.table(
            [
                ["t"] * count,
                pa.array([0] * count, pa.int32()),
                pa.array(range(count), pa.int64()),
                pa.array([INSIDE] * count, pa.timestamp("us", "UTC")),
                [b"k"] * count,
                values,
            ],
            schema=RAW,
        )
        (self.folder / "in").mkdir()
        size = -(-count // files)
        for at in range(files):
            pq.write_table(table.slice(at * size, size), self.folder / "in" / f"{at}.parquet")

    def parsed(self, raw: DataFrame, loaded: LoadedPipeline) -> DataFrame:
        generation = loaded.open_generation(create=True)
        assert generation is not None
        source = live_of(loaded)
        check = EventTimeCheck(loaded.pipeline.event_time, self.clock_ms)
        return parse_values(raw, source, source.columns_after({}), generation, check)

    def batch(self, spark: SparkSession, loaded: LoadedPipeline) -> list[int]:
        raw = spark.read.parquet(str(self.folder / "in"))
        return sorted(row["id"] for row in self.parsed(raw, loaded).collect())

    def stream(
        self,
        spark: SparkSession,
        loaded: LoadedPipeline,
        transform: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        after_batch: Callable[[], object] = lambda: None,
    ) -> list[int]:
        stream = spark.readStream.schema(spark.read.parquet(str(self.folder / "in")).schema)
        raw = stream.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        rows: list[int] = []

        def keep(batch: DataFrame, _: int) -> None:
            rows.extend(row["id"] for row in batch.collect())
            after_batch()

        made = transform(self.parsed(raw, loaded))
        writer = made.writeStream.foreachBatch(keep).trigger(availableNow=True)
        checkpoint = loaded.require_generation().checkpoint.url
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        return sorted(rows)


def expected(times: list[datetime | None], low: datetime, high: datetime) -> list[int]:
    """Ids of the records that count, by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE log (id BIGINT, ms BIGINT)")
        rows = [(at, None if time is None else to_ms(time)) for at, time in enumerate(times)]
        connection.executemany("INSERT INTO log VALUES (?, ?)", rows)
        query = "SELECT id FROM log WHERE ms IS NULL OR ms BETWEEN ? AND ? ORDER BY id"
        found = connection.execute(query, [to_ms(low), to_ms(high)]).fetchall()
    return [row[0] for row in found]


def left_out(loaded: LoadedPipeline) -> tuple[BadRecordCount, list[dict[str, Any]]]:
    generation, source = loaded.require_generation(), live_of(loaded)
    counted = Collector(
        generation, "live", source, loaded.pipeline.event_time, loaded.pipeline.stores
    ).collect()
    assert not list(staging_folder(generation, "live").root.iterdir())
    path = generation.path("quarantine/live")
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().sort_by("offset").to_pylist()
    return counted, rows


BOUNDS = {"not_before": f"{LOW:%Y-%m-%dT%H:%M:%SZ}", "not_after": f"{HIGH:%Y-%m-%dT%H:%M:%SZ}"}


@pytest.mark.parametrize(
    ("form", "policy"),
    [
        *((form, "quarantine") for form in FORMATS),
        *((form, "drop") for form in ("json", "avro", *[*FORMATS][3:])),
    ],
)
def test_times_outside_of_the_bounds_are_left_out_and_counted_once(
    tmp_path: Path, spark: SparkSession, form: str, policy: str
) -> None:
    records = Records(tmp_path, form)
    # With `raw` any bytes can be read.
    extra = [] if form == "raw" else [UNREADABLE]
    records.write(TIMES, extra, files=3)
    # Both policies for records that can't be read, and both at the same time.
    other = "quarantine" if policy == "drop" else "drop"
    loaded = records.loaded({**BOUNDS, "outside": policy}, on_bad_record=other)
    good = expected(TIMES, LOW, HIGH)
    assert records.stream(spark, loaded) == good
    assert sorted({*range(len(TIMES))} - {*good}) == OUTSIDE
    counted, rows = left_out(loaded)
    assert (counted.outside, counted.total) == (len(OUTSIDE), len(extra))
    outside = [row for row in rows if row["kind"] == "outside"]
    assert [row["offset"] for row in outside] == OUTSIDE
    bytes_of = [records.value_of(at, TIMES[at]) for at in OUTSIDE]
    kept = policy == "quarantine"
    assert [row["value"] for row in outside] == (bytes_of if kept else [None] * len(OUTSIDE))
    assert {row["key"] for row in outside} == {b"k" if kept else None}
    assert {row["timestamp"] for row in outside} == {INSIDE}
    assert all(f"from {LOW:%Y-%m-%d}" in row["reason"] for row in outside)
    unreadable = [row["value"] for row in rows if row["kind"] == "unreadable"]
    assert unreadable == (extra if other == "quarantine" else [])
    # A batch leaves out the same records, and stages none.
    assert records.batch(spark, loaded) == good
    assert left_out(loaded) == (counted, rows)


@pytest.mark.parametrize("form", FORMATS)
def test_without_a_policy_the_record_is_named_and_with_keep_it_is_read(
    tmp_path: Path, spark: SparkSession, form: str
) -> None:
    records = Records(tmp_path, form)
    inside: list[datetime | None] = [INSIDE, None, LOW, HIGH]
    records.write([*inside, TIMES[5]])
    place = "Topic `t`, partition 0, offset 4: the event time `at` is 2099-12-31T23:59:59.000Z"
    loaded = records.loaded(BOUNDS)
    # A stream checks by the same expression; once is enough.
    for read in (records.batch, records.stream)[: 1 + (form == "json")]:
        with fails_with(place):
            read(spark, loaded)
    assert records.batch(spark, records.loaded({**BOUNDS, "outside": "keep"})) == [*range(5)]


def test_a_filter_of_the_transform_takes_no_record_away_before_it_is_counted(
    tmp_path: Path, spark: SparkSession
) -> None:
    records = Records(tmp_path, "json")
    records.write(TIMES)
    loaded = records.loaded({**BOUNDS, "outside": "drop"})
    few = [at for at in expected(TIMES, LOW, HIGH) if at > 12]
    assert records.stream(spark, loaded, lambda rows: rows.where("id > 12")) == few
    assert left_out(loaded)[0].outside == len(OUTSIDE)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_replayed_micro_batch_decides_by_the_clock_of_its_first_attempt(
    tmp_path: Path, spark: SparkSession, zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        require_same_decision(tmp_path, spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def require_same_decision(folder: Path, spark: SparkSession) -> None:
    """Replay a micro-batch of an evening in 2020, by UTC, which is the next day in Tokyo."""
    records = Records(folder, "json")
    first, later = datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 3, tzinfo=UTC)
    records.write([first, later])
    loaded = records.loaded({"outside": "drop"})
    assert records.stream(spark, loaded) == [0, 1]
    # As if it had been begun in 2020, and its driver had died before the commit.
    checkpoint = loaded.require_generation().checkpoint.root
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    (checkpoint / "offsets" / ".0.crc").unlink()
    offsets = checkpoint / "offsets" / "0"
    version, metadata, *places = offsets.read_text().splitlines()
    begun = {
        **json.loads(metadata),
        "batchTimestampMs": to_ms(datetime(2020, 1, 1, 20, tzinfo=UTC)),
    }
    offsets.write_text("\n".join([version, json.dumps(begun), *places]))
    assert records.stream(spark, loaded) == [0]
    counted, rows = left_out(loaded)
    assert (counted.outside, [row["offset"] for row in rows]) == (1, [1])
    shown = re.search("only times from (.*) to (.*) count", rows[0]["reason"])
    assert shown is not None
    bounds = [datetime.fromisoformat(each) for each in shown.groups()]
    # The end of the day after that of the clock, in UTC.
    day_after = datetime(2020, 1, 2, 23, 59, 59, 999_000, tzinfo=UTC)
    assert bounds == [datetime(1980, 1, 1, tzinfo=UTC), day_after]


@contextmanager
def compiling(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile whole stages, as it does for users; tests do without."""
    usual = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {name: str(spark.conf.get(name)) for name in usual}
    try:
        for name, value in usual.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_the_micro_batches_of_a_day_run_the_same_compiled_code(
    tmp_path: Path, spark: SparkSession
) -> None:
    records = Records(tmp_path, "json")
    records.write([INSIDE] * 4, files=4)
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    counts: list[int] = []
    before = compiled.getCount()
    with compiling(spark):
        found = records.stream(
            spark, records.loaded({}), after_batch=lambda: counts.append(compiled.getCount())
        )
    assert (found, len(counts)) == ([*range(4)], 4)
    assert counts[0] > before
    assert len({*counts[1:]}) == 1


def test_a_bounded_topic_decides_by_the_clock_of_its_range_however_it_is_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    records = Records(tmp_path, "json")
    records.write([datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 3, tzinfo=UTC)])
    records.clock_ms = to_ms(datetime(2020, 1, 1, tzinfo=UTC))
    loaded = records.loaded({"outside": "drop"})
    assert records.batch(spark, loaded) == [0]
    assert records.stream(spark, loaded) == [0]
