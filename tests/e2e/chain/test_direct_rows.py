"""Rows that tasks write themselves: the same table as by Spark, whatever happens on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.operations import live_run
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.kafka.ranges.cut_ranges import Split
from sources.ledger import SeamCount, count_name
from sources.storage.tables.delta import delta_table
from spark_jobs.inside.query.places import followed_topic_stream
from spark_jobs.inside.query.seam.topic_seam import Seam
from spark_jobs.inside.readers.topics import driver_records
from spark_jobs.inside.readers.topics.direct_records import DirectRecords
from tests.e2e.case import Case, as_json, moment, run_through, wrong
from tests.e2e.in_session import fails_with, run_and_audit, run_chain, run_live
from tests.services.lake import lake
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# The driver kills itself where files are written and no commit names them.
KILL = """
import os, signal
from pathlib import Path
from spark_jobs.inside.query.places import followed_topic_stream
from spark_jobs.inside.readers.topics import driver_records
from spark_jobs.inside.sink.appending import append_once
commit_once = append_once.commit_once
followed_topic_stream.READ_OFFSETS = {least}
driver_records.MOST_OFFSETS = {most}

def die_or_commit(commit, table, transaction, said):
    for mark in Path(__file__).parent.glob("die-*"):
        if transaction.version == int(mark.name.removeprefix("die-")):
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    commit_once(commit, table, transaction, said)

append_once.commit_once = die_or_commit
"""
# Rows pass through Spark while there is a file beside this one.
EITHER = """
from pathlib import Path

def either(rows):
    is_by_spark = Path(__file__).with_name("by-spark").exists()
    return rows.where("id >= 0") if is_by_spark else rows
"""
COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}
ALL = {
    "id": "bigint",
    "at": "timestamp",
    "v": "double",
    "i": "int",
    "small": "smallint",
    "tiny": "tinyint",
    "yes": "boolean",
    "s": "string",
    "day": "date",
    "price": "decimal(9,2)",
    "sum": "decimal(30,6)",
}


def json_history(document: dict[str, Any]) -> None:
    files = {"path": "in/*.json", "format": "json", "schema": COLUMNS}
    document["sources"][0] = {**document["sources"][0], **files, "batch": {"files": 1}}


def files_of(loaded: LoadedPipeline) -> tuple[list[str], list[str]]:
    """Files of the table that tasks wrote themselves, and those that Spark wrote."""
    names = [uri.rpartition("/")[2] for uri in delta_table(loaded.target).file_uris()]
    # Spark numbers its files by task: `part-00000-…`.
    by_spark = [name for name in names if name.startswith("part-0000")]
    return [name for name in names if name not in by_spark], by_spark


@pytest.fixture(autouse=True)
def _not_by_the_driver(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Leave micro-batches to tasks, few as their records are, unless a test says otherwise."""
    if "by_the_driver" not in request.fixturenames:
        monkeypatch.setattr(driver_records, "MOST_OFFSETS", -1)


@pytest.fixture
def by_the_driver(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of rows of each micro-batch that the driver has read."""
    found: list[int] = []
    read = driver_records.DriverRecords.rows

    def noted(records: driver_records.DriverRecords, batch_id: int) -> pa.RecordBatch | None:
        rows = read(records, batch_id)
        found.extend([] if rows is None else [len(rows)])
        return rows

    monkeypatch.setattr(driver_records.DriverRecords, "rows", noted)
    return found


@pytest.fixture
def read_by_tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of splits of each micro-batch whose records tasks read, although there are few."""
    monkeypatch.setattr(followed_topic_stream, "READ_OFFSETS", 1)
    found: list[int] = []
    of_numbered = DirectRecords.of_numbered

    def noted(
        records: DirectRecords, splits: Sequence[Split], numbers: DataFrame, clock_ms: int
    ) -> DataFrame:
        found.append(len(splits))
        return of_numbered(records, splits, numbers, clock_ms)

    monkeypatch.setattr(DirectRecords, "of_numbered", noted)
    return found


def test_history_and_topic_are_written_by_the_tasks_that_parse_them(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    read_by_tasks: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_json_history()
    case.produce(range(500, 1000))
    loaded = case.pipeline(json_history)
    run_chain(spark, loaded)
    case.produce(range(1000, 2000))
    # To build a stream of parsed rows, of which no row is read, takes a second of the switch.
    monkeypatch.setattr(followed_topic_stream.FollowedTopic, "rows", pytest.fail)
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)
    direct, _ = files_of(loaded)
    assert len(direct) >= 3
    # Inside the seam and beyond it, beside a history that is read to its end.
    assert read_by_tasks == [2, 2]
    # Spark skips files by what tasks said of them, and finds each row.
    found = spark.read.format("delta").load(str(tmp_path / "out"))
    for low in (0, 499, 999, 1000, 1998):
        assert found.where(f"id >= {low} AND id < {low + 2}").count() == 2


@pytest.mark.parametrize(
    "passing",
    [
        pytest.param(("rows", []), id="which has copies of the others"),
        # Those that history has: 899…999, from its end minus the lateness on.
        pytest.param(("rows.drop('v')", [101]), id="which lacks a column that is compared"),
    ],
)
def test_rows_of_the_seam_are_written_or_left_out_by_tasks_that_can_tell(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    read_by_tasks: list[int],
    monkeypatch: pytest.MonkeyPatch,
    passing: tuple[str, list[int]],
) -> None:
    transform, by_spark = passing
    case = Case(tmp_path, servers, partitions=2)
    case.write_json_history()
    # All of it is there before the plan, so that all of it is in the seam.
    case.produce()
    left: list[int] = []
    apply_to_left = Seam.apply_to_left

    def noted(seam: Seam, rows: DataFrame, batch_id: int) -> DataFrame:
        left.append(rows.count())
        return apply_to_left(seam, rows, batch_id)

    monkeypatch.setattr(Seam, "apply_to_left", noted)
    module = tmp_path / "transforms.py"
    module.write_text(f"{module.read_text()}\ndef passed(rows):\n    return {transform}\n")

    def edit(document: dict[str, Any]) -> None:
        json_history(document)
        document["transform"] = "transforms:passed"

    loaded = case.pipeline(edit)
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)
    assert (left, len(read_by_tasks)) == (by_spark, 1)
    # All of them are counted, whoever has left them out.
    counted = loaded.require_generation().read(count_name("live"), SeamCount)
    assert counted is not None
    assert (sum(counted.rows.values()), sum(counted.removed.values())) == (1101, 101)


def values(n: int) -> dict[str, Any]:
    row = {
        **json.loads(as_json(n)),
        "i": n,
        "small": n % 30000,
        "tiny": n % 100,
        "yes": n % 2 == 0,
        "s": f"text é {n}",
        "day": "2024-02-29",
        "price": n / 4,
        "sum": n,
    }
    return {name: None if name != "id" and n % 7 == 0 else value for name, value in row.items()}


def odd(n: int) -> bytes:
    """A record that only Spark can decide about: good, unreadable, or far in the future."""
    row = values(n)
    if n % 30 == 0:
        return b" " + json.dumps(row).encode()
    if n % 30 == 10:
        return json.dumps({**row, "at": "2099-01-01T00:00:00Z"}).encode()
    return json.dumps({**row, "i": "text"}).encode()


def all_types(document: dict[str, Any]) -> None:
    live = document["sources"][1]
    live.update(start="earliest", schema=ALL, on_bad_record="quarantine")
    live.update(include={"topic": "topic", "position": "offset", "written": "timestamp"})
    document["sources"] = [live]
    document["event_time"] = {"column": "at", "outside": "quarantine"}
    document.pop("key")
    document.pop("allowed_lateness")


@pytest.mark.parametrize("reader", ["tasks", "spark", "driver"])
def test_the_table_is_that_of_spark_for_all_types_and_odd_records(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    reader: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = request.getfixturevalue("read_by_tasks") if reader == "tasks" else []
    if reader == "driver":
        monkeypatch.setattr(driver_records, "MOST_OFFSETS", 5_000)
    case = Case(tmp_path, servers, partitions=2)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for n in range(1000):
        value = odd(n) if n % 10 == 0 else json.dumps(values(n)).encode()
        # One record has the time -1, Kafka's word for none.
        time_ms = -1 if n == 502 else 1704200000000
        producer.produce(case.topic, value, b"key", partition=n % 2, timestamp=time_ms)
    assert producer.flush(30) == 0
    (tmp_path / "transforms.py").write_text(
        "def chosen(rows):\n    return rows.drop('v')\n\n\n"
        "def filtered(rows):\n    return rows.drop('v').where('id >= 0')\n"
    )
    tables = []
    for transform in ("chosen", "filtered"):

        def edit(document: dict[str, Any], name: str = transform) -> None:
            all_types(document)
            document["transform"] = f"transforms:{name}"
            document["name"] = name
            document["sink"]["path"] = f"out-{name}"
            document["state"] = f"state-{name}"

        loaded = case.pipeline(edit)
        run_chain(spark, loaded, lambda beat: beat.bad_records == beat.outside_records == 33)
        direct, by_spark = files_of(loaded)
        assert (len(direct) > 0, len(by_spark) > 0) == (
            transform == "chosen",
            transform != "chosen",
        )
        tables.append(spark.read.format("delta").load(loaded.target.url))
        kept = loaded.require_generation().path("quarantine/live")
        tables.append(spark.read.format("delta").load(str(kept)))
    # Spark hands the records over to the second transform, which needs its operators.
    assert found == ([2] if reader == "tasks" else [])
    direct_rows, direct_bad, spark_rows, spark_bad = tables
    assert direct_rows.schema == spark_rows.schema
    assert direct_rows.count() == spark_rows.count() == 934
    assert direct_rows.exceptAll(spark_rows).count() == 0
    compared = ["place", "partition", "offset", "timestamp", "key", "value", "kind"]
    assert direct_bad.select(compared).exceptAll(spark_bad.select(compared)).count() == 0
    assert direct_bad.count() == spark_bad.count() == 66


AVRO = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def test_the_table_is_that_of_spark_for_avro_and_damaged_records(
    tmp_path: Path, servers: str, spark: SparkSession, read_by_tasks: list[int]
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    schema = fastavro.parse_schema(AVRO)
    producer = Producer({"bootstrap.servers": servers})
    for n in range(1000):
        out, at = BytesIO(), None if n % 7 == 0 else moment(n)
        row = {"id": n, "at": at, "tags": [f"t{n}"] * (n % 3)}
        fastavro.schemaless_writer(out, schema, row)
        value = out.getvalue()[: -1 if n % 50 == 1 else None]
        producer.produce(case.topic, value, partition=n % 2)
    assert producer.flush(30) == 0
    (tmp_path / "transforms.py").write_text(
        "def same(rows):\n    return rows\n\n\n"
        "def filtered(rows):\n    return rows.where('id >= 0')\n"
    )
    tables = []
    for transform in ("same", "filtered"):

        def edit(document: dict[str, Any], name: str = transform) -> None:
            topic_alone(document)
            kinds = {"id": "bigint", "at": "timestamp", "tags": "array<string>"}
            fields = {"format": "avro", "avro_schema": "event.avsc", "on_bad_record": "drop"}
            document["sources"][0].update(fields, schema=kinds)
            document["transform"] = f"transforms:{name}"
            document["name"] = name
            document["sink"]["path"] = f"out-{name}"
            document["state"] = f"state-{name}"

        loaded = case.pipeline(edit)
        run_chain(spark, loaded, lambda beat: beat.bad_records == 20)
        direct, by_spark = files_of(loaded)
        assert (len(direct) > 0, len(by_spark) > 0) == (transform == "same", transform != "same")
        tables.append(spark.read.format("delta").load(loaded.target.url))
    by_tasks, by_spark_rows = tables
    assert len(read_by_tasks) > 0
    assert by_tasks.schema == by_spark_rows.schema
    assert by_tasks.count() == by_spark_rows.count() == 980
    assert by_tasks.exceptAll(by_spark_rows).count() == 0


def test_a_bounded_topic_is_written_by_the_tasks_that_read_it(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.produce(range(1000))

    def archive_first(document: dict[str, Any]) -> None:
        live = document["sources"][1]
        live.update(max_offsets_per_batch=300, schema=COLUMNS)
        ends = {"start": "earliest", "until": "latest", "on_bad_record": "quarantine"}
        archive = {**live, "name": "archive", **ends}
        document["sources"] = [archive, live]

    producer = Producer({"bootstrap.servers": servers})
    producer.produce(case.topic, b"no object", partition=0, timestamp=1704200000000)
    assert producer.flush(30) == 0
    loaded = case.pipeline(archive_first)
    run_chain(spark, loaded)
    direct, by_spark = files_of(loaded)
    # 300 offsets a micro-batch.
    assert (len(direct) >= 4, by_spark) == (True, [])
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (1000, {}, True)
    kept = loaded.require_generation().path("quarantine/archive")
    assert [row["value"] for row in DeltaTable(str(kept)).to_pyarrow_table().to_pylist()] == [
        b"no object"
    ]


def test_one_run_writes_by_tasks_and_the_next_by_spark(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history()
    case.produce(range(1000, 1100))
    (tmp_path / "transforms.py").write_text(EITHER)

    def edit(document: dict[str, Any]) -> None:
        json_history(document)
        document["transform"] = "transforms:either"

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    found = [[len(names) for names in files_of(loaded)]]
    for number, by in enumerate(("Spark", "tasks")):
        mark = tmp_path / "by-spark"
        mark.touch() if by == "Spark" else mark.unlink()
        case.produce(range(1100 + 100 * number, 1200 + 100 * number))
        run_live(spark, loaded)
        found.append([len(names) for names in files_of(loaded)])
    (by_tasks, _), (by_tasks_2, by_spark_2), (by_tasks_3, by_spark_3) = found
    assert by_tasks == by_tasks_2 < by_tasks_3
    assert 0 < by_spark_2 == by_spark_3
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (1300, {}, True)


def every_second_transaction(
    case: Case, servers: str, number: int, partitions: int
) -> Sequence[int]:
    """Produce a transaction of a hundred records, and abort it if its number is odd.

    Returns the ids of the records that it leaves.
    """
    # A new one, which knows all partitions.
    producer = Producer({"bootstrap.servers": servers, "transactional.id": case.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    ids = range(100 * number, 100 * number + 100)
    for n in ids:
        producer.produce(case.topic, as_json(n).encode(), partition=n % partitions)
    producer.flush(30)
    if number % 2:
        producer.abort_transaction(30)
        return ()
    producer.commit_transaction(30)
    return ids


def test_tasks_read_what_transactions_leave_of_a_topic_that_gets_partitions(
    tmp_path: Path, servers: str, spark: SparkSession, read_by_tasks: list[int]
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    loaded = case.pipeline(topic_alone)
    expected: list[int] = []
    for number in range(6):
        if number == 3:
            run_chain(spark, loaded)
            case.grow(3)
        expected += every_second_transaction(case, servers, number, 2 if number < 3 else 3)
    run_live(spark, loaded)
    assert sorted(delta_table(loaded.target).to_pyarrow_table()["id"].to_pylist()) == expected
    # Where a new partition begins is left to Spark.
    assert read_by_tasks[0] == 2
    assert (audit(loaded).ok, len(read_by_tasks) < len(micro_batches(loaded))) == (True, True)


def test_few_records_are_read_and_written_by_the_driver_itself(
    tmp_path: Path, servers: str, spark: SparkSession, by_the_driver: list[int]
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    loaded = case.pipeline(topic_alone)
    expected: list[int] = []
    for number in range(4):
        expected += every_second_transaction(case, servers, number, 2)
        if number:
            run_live(spark, loaded)
        else:
            run_chain(spark, loaded)
    assert sorted(delta_table(loaded.target).to_pyarrow_table()["id"].to_pylist()) == expected
    # What was aborted leaves offsets, and no row.
    assert (sum(by_the_driver), 0 in by_the_driver) == (200, True)
    # A record that can't be read is Spark's, which says where it is.
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(case.topic, b"no object", partition=1)
    assert producer.flush(30) == 0
    with fails_with("partition 1, offset 204"):
        run_live(spark, loaded)
    assert sum(by_the_driver) == 200


def micro_batches(loaded: LoadedPipeline) -> list[dict[str, Any]]:
    return [
        entry for entry in delta_table(loaded.target).history() if entry["operation"] == "WRITE"
    ]


def topic_alone(document: dict[str, Any]) -> None:
    live = document["sources"][1]
    live.update(start="earliest", schema=COLUMNS, max_offsets_per_batch=300)
    document["sources"] = [live]
    document.pop("key")
    document.pop("allowed_lateness")


@pytest.mark.crash
@pytest.mark.parametrize("edit", [json_history, topic_alone])
@pytest.mark.parametrize(
    ("least", "most"),
    [
        pytest.param(1, -1, id="1"),
        pytest.param(50_000, -1, id="50000"),
        pytest.param(50_000, 5_000, id="driver"),
    ],
)
def test_a_driver_that_dies_before_its_commit_leaves_each_row_once(
    tmp_path: Path, servers: str, edit: Callable[[dict[str, Any]], None], least: int, most: int
) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history()
    case.produce(range(1000 if edit is json_history else 0, 2000))
    transforms = tmp_path / "transforms.py"
    transforms.write_text(transforms.read_text() + KILL.format(least=least, most=most))
    mark = tmp_path / "die-1"
    mark.touch()
    loaded = case.pipeline(edit)
    with pytest.raises(RunError):
        run_through(loaded)
    assert not mark.exists()
    listed = set(DeltaTable(str(tmp_path / "out")).file_uris())
    written = [str(path) for path in (tmp_path / "out").glob("part-*.parquet")]
    assert set(written) - listed
    wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", 60)
    report = run_through(loaded)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)


def test_tasks_write_to_a_bucket(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(1000))
    with lake("s3", tmp_path) as move:

        def edit(document: dict[str, Any]) -> None:
            topic_alone(document)
            move(document)

        report = run_through(loaded := case.pipeline(edit))
        direct, by_spark = files_of(loaded)
    assert (report.expected, wrong(report), report.ok) == (1000, {}, True)
    assert (len(direct) > 0, by_spark) == (True, [])


def test_spark_writes_tables_with_partitions(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history(range(4))
    case.produce(range(4, 6))

    def edit(document: dict[str, Any]) -> None:
        json_history(document)
        document["sink"]["partition_by"] = ["id"]

    report = run_and_audit(spark, loaded := case.pipeline(edit))
    assert (report.expected, wrong(report), report.ok) == (6, {}, True)
    assert all("/id=" in uri for uri in delta_table(loaded.target).file_uris())
