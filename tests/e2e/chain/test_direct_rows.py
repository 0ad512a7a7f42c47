"""Rows that tasks write themselves: the same table as by Spark, whatever happens on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from orchestration import operations
from orchestration.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.storage.delta import delta_table
from tests.e2e.case import Case, as_json, run_through, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_live
from tests.services.lake import lake
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# The driver kills itself where files are written and no commit names them.
KILL = """
import os, signal
from pathlib import Path
from spark_jobs.target.appending import append_once
commit_once = append_once.commit_once

def die_or_commit(commit, table, transaction):
    for mark in Path(__file__).parent.glob("die-*"):
        if transaction.version == int(mark.name.removeprefix("die-")):
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    commit_once(commit, table, transaction)

append_once.commit_once = die_or_commit
"""
# Rows pass through Spark while there is a file beside this one.
EITHER = """
from pathlib import Path

def either(rows):
    is_by_spark = Path(__file__).with_name("by-spark").exists()
    return rows.where("id >= 0") if is_by_spark else rows
"""
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
    schema = {"id": "bigint", "at": "timestamp", "v": "double"}
    files = {"path": "in/*.json", "format": "json", "schema": schema}
    document["sources"][0] = {**document["sources"][0], **files, "batch": {"files": 1}}


def files_of(loaded: LoadedPipeline) -> tuple[list[str], list[str]]:
    """Files of the table that tasks wrote themselves, and those that Spark wrote."""
    names = [uri.rpartition("/")[2] for uri in delta_table(loaded.target).file_uris()]
    # Spark numbers its files by task: `part-00000-…`.
    by_spark = [name for name in names if name.startswith("part-0000")]
    return [name for name in names if name not in by_spark], by_spark


def test_history_and_topic_are_written_by_the_tasks_that_parse_them(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    case.write_json_history()
    case.produce(range(500, 1000))
    loaded = case.pipeline(json_history)
    run_chain(spark, loaded)
    case.produce(range(1000, 2000))
    run_live(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (2000, {}, True)
    direct, _ = files_of(loaded)
    assert len(direct) >= 3
    # Spark skips files by what tasks said of them, and finds each row.
    found = spark.read.format("delta").load(str(tmp_path / "out"))
    for low in (0, 499, 999, 1000, 1998):
        assert found.where(f"id >= {low} AND id < {low + 2}").count() == 2


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


def test_the_table_is_that_of_spark_for_all_types_and_odd_records(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers, partitions=2)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for n in range(1000):
        value = odd(n) if n % 10 == 0 else json.dumps(values(n)).encode()
        producer.produce(case.topic, value, b"key", partition=n % 2, timestamp=1704200000000)
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
    direct_rows, direct_bad, spark_rows, spark_bad = tables
    assert direct_rows.schema == spark_rows.schema
    assert direct_rows.count() == spark_rows.count() == 934
    assert direct_rows.exceptAll(spark_rows).count() == 0
    compared = ["place", "partition", "offset", "timestamp", "key", "value", "kind"]
    assert direct_bad.select(compared).exceptAll(spark_bad.select(compared)).count() == 0
    assert direct_bad.count() == spark_bad.count() == 66


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


def topic_alone(document: dict[str, Any]) -> None:
    schema = {"id": "bigint", "at": "timestamp", "v": "double"}
    live = document["sources"][1]
    live.update(start="earliest", schema=schema, max_offsets_per_batch=300)
    document["sources"] = [live]
    document.pop("key")
    document.pop("allowed_lateness")


@pytest.mark.crash
@pytest.mark.parametrize("edit", [json_history, topic_alone])
def test_a_driver_that_dies_before_its_commit_leaves_each_row_once(
    tmp_path: Path, servers: str, edit: Callable[[dict[str, Any]], None]
) -> None:
    case = Case(tmp_path, servers)
    case.write_json_history()
    case.produce(range(1000 if edit is json_history else 0, 2000))
    transforms = tmp_path / "transforms.py"
    transforms.write_text(transforms.read_text() + KILL)
    mark = tmp_path / "die-1"
    mark.touch()
    loaded = case.pipeline(edit)
    with pytest.raises(RunError):
        run_through(loaded)
    assert not mark.exists()
    listed = set(DeltaTable(str(tmp_path / "out")).file_uris())
    written = [str(path) for path in (tmp_path / "out").glob("part-*.parquet")]
    assert set(written) - listed
    wait_for(lambda: not operations.is_live(loaded), "the lock of the dead driver", 60)
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
