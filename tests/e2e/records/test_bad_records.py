"""Bad records that do not stop the stream: none is lost, none is twice, all others arrive."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import live_run, stopping
from orchestration.supervision.source_status import source_status
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.reports.collect_bad_records import Collector
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.launch import run_control
from spark_jobs.run_state.heartbeat import describe
from tests.e2e.case import Case, as_json, live_of, start_live, windows, wrong
from tests.e2e.in_session import run_and_audit, run_chain, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
# Which of them DuckDB would read if it were asked to: `1.5` and `"7"` as integers.
BAD: list[bytes | None] = [
    *[b'{"id": "x"', b"[1]", b'{"id": 1.5}', b'{"id": "7"}', b'{"id": 1, "v": "2"}'],
    *[b"\xff\xfe", None, b""],
]


def send(case: Case, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for value in values:
        # With a key, one without a value would delete.
        key = None if value is None else b"k"
        producer.produce(case.topic, value, key, partition=0, timestamp=1704200000000)
    assert producer.flush(30) == 0


def quarantined(loaded: LoadedPipeline) -> list[dict[str, Any]]:
    path = loaded.require_generation().path("quarantine/live")
    table = DeltaTable(path).to_pyarrow_table()
    rows: list[dict[str, Any]] = table.sort_by("offset").to_pylist()
    return rows


def collector(loaded: LoadedPipeline) -> Collector:
    event_time = loaded.pipeline.event_time
    return Collector(
        loaded.require_generation(), "live", live_of(loaded), event_time, loaded.pipeline.stores
    )


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_bad_records_go_to_the_quarantine_and_all_others_arrive(
    tmp_path: Path, servers: str, spark: SparkSession, mode: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    # In the seam, and after it.
    case.produce(range(500, 950))
    send(case, BAD[:2])
    case.produce(range(950, 1100))

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(on_bad_record="quarantine", max_offsets_per_batch=100)
        if mode == "merge":
            windows(document)

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    send(case, BAD[2:])
    case.produce(range(1100, 1200))
    beat = run_live(spark, loaded, lambda beat: beat.bad_records == len(BAD))
    assert describe(beat).endswith(", 8 bad records")
    report = audit(loaded)
    assert wrong(report) == {}
    assert report.ok
    assert report.input_rows.distinct == 1200
    line = report.bad_records[0]
    assert (line.found, line.counted, line.lacking) == (len(BAD), len(BAD), 0)
    rows = quarantined(loaded)
    told = source_status(loaded, loaded.require_generation(), "live").note
    assert told == (
        f"{len(rows)} records of source `live`, left out of the table: see the Delta table "
        f"`{loaded.require_generation().folder('quarantine/live')}`."
    )
    assert [row["value"] for row in rows] == BAD
    assert [row["offset"] for row in rows] == [450, 451, *range(602, 608)]
    assert {(row["source"], row["place"], row["partition"], row["key"]) for row in rows} == {
        ("live", case.topic, 0, b"k"),
        ("live", case.topic, 0, None),
    }
    assert {row["timestamp"].timestamp() for row in rows} == {1704200000}
    no_object = "the value is no JSON object with the declared columns"
    reasons: dict[bytes | None, str] = {
        **dict.fromkeys(BAD, no_object),
        **dict.fromkeys([b'{"id": 1.5}', b'{"id": "7"}'], "`id` can't be read as bigint"),
        b'{"id": 1, "v": "2"}': "`v` can't be read as double",
        b"\xff\xfe": "the value is no UTF-8 text",
        None: "the record has no value",
    }
    assert {row["value"]: row["reason"] for row in rows} == reasons
    assert not list(staging_folder(loaded.require_generation(), "live").root.iterdir())


def test_dropped_records_are_counted_and_nowhere_kept(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    send(case, BAD)
    loaded = case.pipeline(lambda document: document["sources"][1].update(on_bad_record="drop"))
    report = run_and_audit(spark, loaded)
    assert (report.expected, wrong(report)) == (1100, {})
    generation = loaded.require_generation()
    counted = generation.read(bad_count_name("live"), BadRecordCount)
    assert counted is not None
    assert counted.total == len(BAD)
    assert not generation.path("quarantine").exists()
    assert report.ok
    assert (report.bad_records[0].found, report.bad_records[0].counted) == (len(BAD), len(BAD))
    # A count that is not what the topic holds is no proof.
    generation.replace(bad_count_name("live"), counted.model_copy(update={"total": 1}))
    assert not audit(loaded).ok


def test_whatever_is_interrupted_each_bad_record_is_kept_once(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    send(case, BAD)

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(on_bad_record="quarantine")

    loaded = case.pipeline(edit)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    staged = staging_folder(generation, "live").root
    kept = tmp_path / "staged"
    # The driver dies before it collects: what is staged is all there is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collector, "collect", lambda _: BadRecordCount(source="live"))
        run_chain(spark, loaded)
    shutil.copytree(staged, kept)
    batch = offset_log.last_committed(generation.checkpoint)
    assert [folder.name for folder in staged.iterdir()] == [str(batch)]
    # It dies between the sink's commit and Spark's: the replay is skipped, and stages nothing.
    commits = generation.checkpoint.root / "commits"
    for name in (str(batch), f".{batch}.crc"):
        (commits / name).unlink()
    assert collector(loaded).collect().total == 0
    assert not DeltaTable.is_deltatable(str(generation.path("quarantine/live")))
    run_live(spark, loaded, lambda beat: beat.bad_records == len(BAD))
    assert [row["value"] for row in quarantined(loaded)] == BAD
    # It dies after the table was written, before the folder was removed; and before the count.
    for lost in ([], [bad_count_name("live")]):
        shutil.copytree(kept, staged, dirs_exist_ok=True)
        for name in lost:
            generation.path(name).unlink()
        assert collector(loaded).collect().total == len(BAD)
        assert [row["value"] for row in quarantined(loaded)] == BAD
    assert audit(loaded).ok


def test_a_record_that_was_staged_twice_is_kept_once(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(500, 1100))
    send(case, BAD)
    # Read twice in every batch, the second time in other tasks.
    (tmp_path / "doubling.py").write_text(
        "def both(rows):\n    return rows.union(rows.repartition(3)).dropDuplicates(['id'])\n"
    )

    def edit(document: dict[str, Any]) -> None:
        document["transform"] = "doubling:both"
        document["sources"][1].update(on_bad_record="quarantine")

    loaded = case.pipeline(edit)
    run_chain(spark, loaded)
    assert [row["value"] for row in quarantined(loaded)] == BAD


@pytest.mark.crash
def test_a_killed_stream_loses_and_doubles_no_bad_record(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    sent: list[bytes | None] = []

    def send_mixed(numbers: range) -> None:
        bad = [b"bad %d" % n for n in numbers[::50]]
        send(case, [*(as_json(n).encode() for n in numbers), *bad])
        sent.extend(bad)

    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(on_bad_record="quarantine", max_offsets_per_batch=100)

    loaded = case.pipeline(edit)
    send_mixed(range(500, 1000))
    try:
        start_live(loaded)
        generation = loaded.require_generation()
        beat = run_control.find_running(generation, "live")
        assert beat is not None
        for first in range(1000, 2000, 100):
            send_mixed(range(first, first + 100))
        # Somewhere among the batches, whatever is staged, written or counted by then.
        os.killpg(os.getpgid(beat.pid), signal.SIGKILL)
        wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", 60)
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    assert [row["value"] for row in quarantined(loaded)] == sent
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (2000, {})
    assert report.ok
    assert report.bad_records[0].counted == len(sent) == report.bad_records[0].found
