"""Files, then a folder that keeps filling: each file that arrives is read once."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.defs.assets.chain_assets import pipeline_assets
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.planning.context import PipelineContext
from sources.planning.files.discovery import GrowingFolder
from spark_jobs.inside.readers.files import plan_log
from spark_jobs.launch import run_control
from tests.e2e.case import Case, as_json, steps, windows, wrong
from tests.e2e.in_session import run_history, run_live
from tests.services.processes import runs, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}


def inbox(**more: Any) -> dict[str, Any]:
    source = {"name": "inbox", "type": "files", "path": "inbox", "format": "json"}
    return {**source, "schema": COLUMNS, "discovery_interval": "100 ms", **more}


def arrive(folder: Path, name: str, numbers: Iterable[int], mtime_s: int | None = None) -> None:
    """A file as it should come: whole, by being renamed."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f"{as_json(n)}\n" for n in numbers))
    if mtime_s is not None:
        os.utime(hidden, (mtime_s, mtime_s))
    hidden.rename(folder / name)


def ids(folder: Path) -> Counter[int]:
    return Counter(
        DeltaTable(str(folder / "out")).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    )


def test_what_arrives_is_read_once_whenever_it_arrives(
    tmp_path: Path, servers: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_log, "CHECKPOINT_EVERY", 2)
    case = Case(tmp_path, servers)
    case.write_history(range(100))
    loaded = case.pipeline(lambda document: document["sources"].__setitem__(1, inbox()))
    run_history(spark, loaded)

    def drops() -> None:
        arrive(tmp_path / "inbox", "b.json", range(120, 130))
        arrive(tmp_path / "inbox", "a.json", range(100, 120), mtime_s=1)

    beat = run_live(spark, loaded, lambda beat: beat.splits_done == 2, drops)
    assert (beat.splits_total, beat.offsets) == (2, None)
    # While nobody looks, and found by one who was stopped before it was read.
    arrive(tmp_path / "inbox", "c.json", range(130, 140))
    generation = loaded.require_generation()
    found = GrowingFolder(PipelineContext(loaded, generation)).discover()
    assert found is not None
    arrive(tmp_path / "inbox", "d.json", range(140, 150))
    run_live(spark, loaded, lambda beat: beat.splits_done == 4)
    assert status(loaded).sources[-1].lag == 0
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (150, {}, True)
    # What was read may be tidied away.
    for name in ("a.json", "b.json", "c.json", "d.json"):
        (tmp_path / "inbox" / name).unlink()
    arrive(tmp_path / "inbox", "e.json", range(150, 160))
    run_live(spark, loaded, lambda beat: beat.splits_done == 5)
    assert ids(tmp_path) == Counter(range(160))
    assert list(generation.path("plan-log/inbox/_delta_log").glob("*.checkpoint.parquet"))


def test_a_log_of_a_plan_that_is_lost_is_written_again(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(100))
    loaded = case.pipeline(lambda document: document["sources"].__setitem__(1, inbox()))
    run_history(spark, loaded)
    arrive(tmp_path / "inbox", "a.json", range(100, 120))
    run_live(spark, loaded, lambda beat: beat.splits_done == 1)
    shutil.rmtree(loaded.require_generation().path("plan-log"))
    arrive(tmp_path / "inbox", "b.json", range(120, 130))
    run_live(spark, loaded, lambda beat: beat.splits_done == 2)
    assert ids(tmp_path) == Counter(range(130))


def test_one_folder_is_history_and_goes_on_with_its_windows(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(1000))

    def edit(document: dict[str, Any]) -> None:
        windows(document)
        same = {**document["sources"][0], "name": "arriving", "discovery_interval": "100 ms"}
        document["sources"][1] = {**same, "rate": {"files": 50}}

    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    case.write_history(range(1000, 1500), name=lambda at, _: f"n{at}.parquet")
    run_live(
        spark,
        loaded,
        lambda beat: beat.splits_done == 6,
        lambda: case.write_history(range(1500, 1600), files=2, name=lambda at, _: f"o{at}.parquet"),
    )
    report = audit(loaded)
    assert (report.input_rows.sources, wrong(report)) == ({"history": 1600, "arriving": 0}, {})


def test_the_stream_over_a_folder_is_an_asset_and_survives_a_kill(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history(range(100))
    loaded = case.pipeline(lambda document: document["sources"].__setitem__(1, inbox()))
    source = loaded.pipeline.sources[-1]
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(pipeline_assets(loaded), instance=instance)
        assert steps(result) == ["plan", "history", "inbox"]
        arrive(tmp_path / "inbox", "a.json", range(100, 200))
        wait_until_caught_up(PipelineContext.require(loaded))
        beat = run_control.find_running(loaded.require_generation(), source.name)
        assert beat is not None
        arrive(tmp_path / "inbox", "b.json", range(200, 300))
        os.kill(beat.pid, signal.SIGKILL)
        wait_for(lambda: not runs(beat.pid), "the driver to be gone")
        wait_for(lambda: not live_run.is_live(loaded), "the lock to be free")
        assert status(loaded).sources[-1].state == "dead"
        live_run.go_live(PipelineContext.require(loaded), source)
        arrive(tmp_path / "inbox", "c.json", range(300, 400))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (400, {}, True)
