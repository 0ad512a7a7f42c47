"""Texts that Delta would turn into null, as it names partitions by them, are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.table.sink import Sink
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.inside.sink.required_columns import has_null_partition
from tests.e2e.case import Case, live_of, moment
from tests.e2e.in_session import fails_with, run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

TYPES = {"id": "bigint", "at": "timestamp", "the.shop": "string"}


def as_json(number: int, shop: str | None) -> str:
    return json.dumps({"id": number, "at": moment(number).isoformat(), "the.shop": shop})


def by_shop(case: Case, mode: str) -> LoadedPipeline:
    def edit(document: dict[str, Any]) -> None:
        history, live = document["sources"]
        history |= {"path": "in/*.json", "format": "json", "schema": TYPES}
        live["schema"] = TYPES
        key = ["id", "the.shop"]
        sink = {"path": "out", "mode": mode, "key": key, "partition_by": ["the.shop"]}
        document |= {"key": key, "sink": sink}

    return case.pipeline(edit)


def write_history(case: Case, shop: str | None) -> None:
    (case.folder / "in").mkdir()
    lines = [f"{as_json(n, shop if n == 7 else 'a')}\n" for n in range(20)]
    (case.folder / "in/a.json").write_text("".join(lines))


@pytest.mark.parametrize(
    ("mode", "shop"), [("append", ""), ("merge", "__HIVE_DEFAULT_PARTITION__")]
)
def test_in_files(tmp_path: Path, servers: str, spark: SparkSession, mode: str, shop: str) -> None:
    case = Case(tmp_path, servers)
    write_history(case, shop)
    loaded = by_shop(case, mode)
    with fails_with(
        f"a row has the text '{shop}' in column `the.shop`, which Delta turns into null"
    ):
        run_history(spark, loaded)
    assert DeltaTable(tmp_path / "out").file_uris() == []


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_in_a_topic(tmp_path: Path, servers: str, spark: SparkSession, mode: str) -> None:
    case = Case(tmp_path, servers)
    write_history(case, None)
    loaded = by_shop(case, mode)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def send(number: int, shop: str | None) -> None:
        producer = Producer({"bootstrap.servers": servers})
        time_ms = int(moment(number).timestamp() * 1000)
        producer.produce(case.topic, as_json(number, shop).encode(), timestamp=time_ms)
        assert producer.flush(30) == 0

    send(20, None)
    run_live(spark, loaded)
    send(21, "")
    with fails_with("a row has the text '' in column `the.shop`, which Delta turns into null"):
        run_live(spark, loaded)
    found = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    assert sorted((each["id"], each["the.shop"]) for each in found if each["the.shop"] != "a") == [
        (7, None),
        (20, None),
    ]


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("", True),
        ("__HIVE_DEFAULT_PARTITION__", True),
        (" ", False),
        ("null", False),
        (None, False),
    ],
)
def test_the_driver_leaves_to_spark_what_spark_refuses(text: str | None, is_left: bool) -> None:
    # delta-rs would keep such a text, so one key could have two rows.
    shops = pa.array(["a", text], pa.string())
    sink = Sink(path="out", mode="merge", key=["id"], partition_by=["id", "shop"])
    rows = pa.record_batch({"id": [1, 2], "shop": shops, "other": [""] * 2})
    assert has_null_partition(sink, rows) == is_left
    assert not has_null_partition(sink, rows.slice(0, 0))
