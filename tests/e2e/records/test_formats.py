"""History in every format, one source after the other, then the topic."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.audit.run import audit
from sources.files.listing import sampled_splits as files
from sources.planning.plan import make_plan, require_plan
from tests.e2e.case import Case, as_json, moment, wrong
from tests.e2e.in_session import run_chain, run_history
from tests.extensions import whole
from tests.hybrid_extensions.iceberg.tables import catalog, delete_rows

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}
AVRO = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "v", "type": ["null", "double"]},
    ],
}


def table(numbers: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array([moment(n) for n in numbers], pa.timestamp("us", "UTC")),
            "v": pa.array([n / 2 for n in numbers], pa.float64()),
        }
    )


def write_csv(path: Path, numbers: list[int]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["at", "id", "v"])
        writer.writerows([moment(n).isoformat(), n, n / 2] for n in numbers)


def write_avro(path: Path, numbers: list[int]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, table(numbers).to_pylist(), sync_interval=500)


def write_json(path: Path, numbers: list[int]) -> None:
    path.write_text("".join(f"{as_json(n)}\n" for n in numbers))


def write_json_gz(path: Path, numbers: list[int]) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(f"{as_json(n)}\n" for n in numbers)


def write_text(path: Path, numbers: list[int]) -> None:
    path.write_text("".join(f"{moment(n):%Y/%m/%d %H:%M} event {n}\n" for n in numbers))


def write_other(path: Path, numbers: list[int]) -> None:
    micros = [int(moment(n).timestamp() * 1000) for n in numbers]
    names = [f"event-{n}" for n in numbers]
    pq.write_table(pa.table({"ts": micros, "name": names, "half": numbers}), path)


AS_TEXT = {
    "id": "CAST(regexp_extract(value, 'event (.+)', 1) AS BIGINT)",
    "at": "CAST(to_timestamp(substring(value, 1, 16), 'yyyy/MM/dd HH:mm') AS TIMESTAMP)",
    "v": "CAST(CAST(regexp_extract(value, 'event (.+)', 1) AS INT) / 2 AS DOUBLE)",
}
AS_OTHER = {
    "v": "CAST(half / 2.0 AS DOUBLE)",
    "id": "CAST(replace(name, 'event-', '') AS BIGINT)",
    "at": "timestamp_millis(ts)",
}


# Name of the source, its file's name, its writer, and what its declaration says more.
FORMATS: list[tuple[str, str, Callable[[Path, list[int]], None], dict[str, Any]]] = [
    ("parquet", "x.parquet", lambda path, own: pq.write_table(table(own), path), {}),
    ("csv", "x.csv", write_csv, {"schema": COLUMNS}),
    ("json", "x.json", write_json, {"schema": COLUMNS}),
    ("json_gz", "x.json.gz", write_json_gz, {"schema": COLUMNS, "format": "json"}),
    ("avro", "x.avro", write_avro, {}),
    ("orc", "x.orc", lambda path, own: orc.write_table(table(own), path), {}),
    ("text", "x.log", write_text, {"select": AS_TEXT}),
    ("other", "x.parquet", write_other, {"format": "parquet", "select": AS_OTHER}),
]
EACH = 300


def test_formats_follow_each_other_and_every_row_arrives_once(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "REGION_BYTES", 4_000)
    case = Case(tmp_path, servers)
    sources = []
    for at, (name, file, write, more) in enumerate(FORMATS):
        (tmp_path / name).mkdir()
        write(tmp_path / name / file, list(range(at * EACH, (at + 1) * EACH)))
        sources.append({"name": name, "type": "files", "path": name, "format": name, **more})
    last = len(FORMATS) * EACH
    case.produce(range(last - 100, last + 200))
    loaded = case.pipeline(
        lambda document: document.update(sources=[*sources, document["sources"][1]])
    )
    run_chain(spark, loaded)
    plan = require_plan(loaded.require_generation())
    splits = {part.source: part.splits for part in plan.files}
    assert all(splits[name] > 1 for name in ("csv", "json", "avro", "text"))
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (last + 200, {})


@pytest.mark.parametrize(
    "name",
    [
        "parquet",
        "csv",
        "avro",
    ],
)
def test_partition_columns_and_a_time_range_reach_the_target(
    tmp_path: Path, servers: str, spark: SparkSession, name: str
) -> None:
    _, file, write, more = next(found for found in FORMATS if found[0] == name)
    for day in range(3):
        folder = tmp_path / "in" / f"day=2024-01-{day + 1:02}" / "kind=a%20b"
        folder.mkdir(parents=True)
        write(folder / file, list(range(day * 1440, (day + 1) * 1440, 10)))
    wanted = {"since": "2024-01-01T12:00:00Z", "until": "2024-01-02T12:00:00Z"}
    source = {
        "name": "history",
        "type": "files",
        "path": "in",
        "format": name,
        "partitions": {"day": "date", "kind": "string"},
        "folder_time": "day=%Y-%m-%d",
        "time_range": wanted,
        **more,
    }
    case = Case(tmp_path, servers)
    loaded = case.pipeline(lambda document: document.update(sources=[source]))
    run_history(spark, loaded)
    plan = require_plan(loaded.require_generation())
    assert plan.files[0].splits == 2
    found = spark.read.format("delta").load(str(tmp_path / "out"))
    days = {str(row["day"]): row["count"] for row in found.groupBy("day").count().collect()}
    assert days == {"2024-01-01": 72, "2024-01-02": 72}
    assert {row["kind"] for row in found.select("kind").distinct().collect()} == {"a b"}
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (144, {})


def test_a_version_of_a_delta_table_stays_what_it_was(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    for at in range(4):
        part = table(list(range(at * 250, (at + 1) * 250)))
        day = pa.array([None if at == 3 else f"d {at}/%"] * len(part), pa.string())
        part = part.append_column("day", day)
        write_deltalake(tmp_path / "in", part, mode="append", partition_by=["day"])
    case = Case(tmp_path, servers)
    case.produce(range(900, 1200))
    select = {name: name for name in COLUMNS}

    def from_table(document: dict[str, Any]) -> None:
        history = document["sources"][0]
        history.update(format="delta", path="in", select=select)

    loaded = case.pipeline(from_table)
    make_plan(loaded)
    # Neither rows that come later nor files that are rewritten change what was planned.
    write_deltalake(tmp_path / "in", part.slice(0, 1), mode="append")
    DeltaTable(tmp_path / "in").optimize.compact()
    run_chain(spark, loaded)
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id"])
    assert sorted(found["id"].to_pylist()) == list(range(1200))


def test_a_delta_table_is_read_without_its_deleted_rows_and_by_the_names_of_its_columns(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    path = str(tmp_path / "in")
    features = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    for at in range(3):
        part = table(list(range(at * 300, (at + 1) * 300))).append_column(
            "was", pa.array([f"{at}"] * 300)
        )
        made = spark.createDataFrame(part).withColumn("day", F.lit(at)).coalesce(1)
        made = made.withColumn("more", F.struct(F.col("id").alias("inner")))
        made.write.format("delta").partitionBy("day").options(**features).mode("append").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN was TO now")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN more.inner TO own")
    # The last rows are gone: their times are no end of history.
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 0 OR id >= 880")
    case.produce(range(850, 1200))

    def from_table(document: dict[str, Any]) -> None:
        history = document["sources"][0]
        own = "CAST((more.own + CAST(now AS INT) - CAST(now AS INT)) / 2 AS DOUBLE)"
        history.update(format="delta", path="in", select={"id": "id", "at": "at", "v": own})

    loaded = case.pipeline(from_table)
    run_chain(spark, loaded)
    left = [at for at in range(880) if at % 7] + list(range(880, 1200))
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id"])
    assert sorted(found["id"].to_pylist()) == sorted({*left, *range(850, 1200)})
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (len({*left, *range(850, 1200)}), {})


@whole
def test_an_iceberg_table_is_read_without_its_deleted_rows_and_by_its_field_ids(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    def part(first: int, was: str, inner: str) -> pa.Table:
        numbers = list(range(first, first + 300))
        more = pa.array([{inner: number} for number in numbers])
        rows = table(numbers).append_column(was, pa.array([str(n) for n in numbers]))
        return rows.append_column("more", more)

    lake = catalog(tmp_path / "in").create_table("shop.events", part(0, "was", "inner").schema)
    lake.append(part(0, "was", "inner"))
    lake.append(part(300, "was", "inner"))
    with lake.update_schema() as change:
        change.rename_column("was", "now")
        change.rename_column("more.inner", "own")
        change.delete_column("v")
    lake.append(part(600, "now", "own").drop_columns(["v"]))
    # The last rows are gone: their times are no end of history.
    gone = [at for at in range(300) if at % 7 == 0 or at >= 280]
    files = [task.file.file_path for task in lake.scan().plan_files()]
    lake = delete_rows(lake, dict.fromkeys(files, gone))
    case = Case(tmp_path, servers)
    case.produce(range(850, 1200))

    def from_table(document: dict[str, Any]) -> None:
        own = "CAST((more.own + CAST(now AS BIGINT)) / 4 AS DOUBLE)"
        document["sources"][0].update(
            format="iceberg",
            path=lake.metadata_location.removeprefix("file://"),
            select={"id": "id", "at": "at", "v": own},
        )

    loaded = case.pipeline(from_table)
    run_chain(spark, loaded)
    left = {at for at in range(900) if at % 300 not in gone}
    assert left == set(lake.scan().to_arrow()["id"].to_pylist())
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id", "v"]).to_pylist()
    assert {row["id"]: row["v"] for row in found} == {
        at: at / 2 for at in left | {*range(850, 1200)}
    }
    assert len(found) == len(left | {*range(850, 1200)})
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (len(found), {})
