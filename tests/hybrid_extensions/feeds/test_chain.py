"""A second sink of a table that Spark writes: history by a load, live rows as they are merged."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.delivery_loop import compare, deliver_once
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import Heartbeat
from tests.e2e.case import TOPIC, Case, live_of
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_windows_that_are_updated_across_the_seam_are_the_same_in_postgresql(
    tmp_path: Path,
    servers: str,
    spark: SparkSession,
    postgres: LocalPostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SERVING_PASSWORD", postgres.password)
    name = f"hours_{uuid.uuid4().hex[:8]}"

    def fed(document: dict[str, Any]) -> None:
        document["transform"] = "transforms:hourly"
        document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}
        document["audit"] = {"sql": "hourly.sql"}
        feed = {"name": "serving", "type": "postgres", "dsn": postgres.dsn, "table": name}
        document["feeds"] = [{**feed, "password_variable": "SERVING_PASSWORD"}]

    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(TOPIC)
    loaded = case.pipeline(fed)
    (feed,) = feeds_of(loaded)
    run_history(spark, loaded)
    assert deliver_once(loaded, feed).kind == "load"
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    kinds = []

    def deliver(_: Heartbeat) -> bool:
        kinds.append(deliver_once(loaded, feed).kind)
        return True

    run_live(spark, loaded, deliver)
    kinds.append(deliver_once(loaded, feed).kind)
    assert "changes" in kinds
    assert "load" not in kinds
    assert audit(loaded).ok
    found = compare(loaded, feed, 1_000_000)
    assert found.agrees
    assert found.compared > 20
    with psycopg.connect(postgres.dsn, password=postgres.password) as connection:
        fed_rows = connection.execute(f"SELECT start, n, total FROM {name}").fetchall()
    rows = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    assert sorted(fed_rows) == sorted((each["start"], each["n"], each["total"]) for each in rows)
