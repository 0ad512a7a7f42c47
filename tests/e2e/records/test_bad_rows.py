"""Bad rows of files: told by their place, or set aside once, and all others arrive."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.operations import bounded_run, chain_plan, live_run
from sources.config.loader import LoadedPipeline
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.errors import RunError
from sources.files.listing import sampled_splits as splitting
from sources.files.listing import sampler
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.driver.reports.collect_bad_records import Collector
from spark_jobs.inside.errors.error_reports import report_of
from spark_jobs.inside.readers.staged_bad_records import staging_folder
from spark_jobs.run_state.heartbeat import Heartbeat, describe, read_heartbeat
from tests.e2e.case import Case, as_json, history_of, live_of, moment, wrong
from tests.e2e.in_session import run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

COLUMNS = {"id": "bigint", "at": "timestamp", "v": "double"}
BAD_JSON = [b"null", b'{"id": "x"', b'{"id": 1.5}', b'{"v": "7"}', b'{"id": 1} {"id": 2}', b"\xff"]
BAD_CSV = [b"1,x", b'7,2024-01-01T00:00:00Z,"1', b"7,yesterday,1", b"7,2024-01-01T00:00:00Z,one"]


def mixed(good: list[bytes], bad: list[bytes]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Lines with a bad one behind every 20 good ones; and where these are."""
    lines, places, at = [], [], 0
    for number, line in enumerate(good):
        lines.append(line)
        at += len(line) + 1
        if number % 20 == 10:
            spoiled = bad[number // 20 % len(bad)]
            lines.append(spoiled)
            places.append((at, spoiled))
            at += len(spoiled) + 1
    return b"\n".join(lines) + b"\n", places


def json_of(numbers: range) -> list[bytes]:
    return [as_json(n).encode() for n in numbers]


def csv_of(numbers: range) -> list[bytes]:
    return [f"{n},{moment(n).isoformat()},{n / 2}".encode() for n in numbers]


def source(name: str, **more: Any) -> dict[str, Any]:
    declared = {"name": name, "type": "files", "path": f"{name}/*", "schema": COLUMNS}
    return {**declared, "batch": {"files": 1}, **more}


def quarantined_lines(document: dict[str, Any]) -> None:
    document["sources"][0] = source("lines", format="json", on_bad_record="quarantine")


def quarantined(loaded: LoadedPipeline, name: str) -> list[dict[str, Any]]:
    path = loaded.require_generation().path(f"quarantine/{name}")
    rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().sort_by("offset").to_pylist()
    return rows


def kept(loaded: LoadedPipeline, name: str) -> list[tuple[str, int, bytes]]:
    return [(row["place"], row["offset"], row["value"]) for row in quarantined(loaded, name)]


@pytest.fixture
def case(tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Small regions, of which only the first and last bytes are looked at."""
    monkeypatch.setattr(splitting, "REGION_BYTES", 14_000)
    monkeypatch.setattr(sampler, "SAMPLE_BYTES", 400)
    case = Case(tmp_path, servers)
    for name in ("lines", "sheet", "packed"):
        (tmp_path / name).mkdir()
    return case


def test_a_bad_row_stops_the_run_by_its_place_or_is_set_aside(
    case: Case, spark: SparkSession
) -> None:
    folder = case.folder
    content, in_lines = mixed(json_of(range(400)), BAD_JSON)
    (folder / "lines" / "0.json").write_bytes(content)
    content, in_sheet = mixed(csv_of(range(400, 700)), BAD_CSV)
    (folder / "sheet" / "0.csv").write_bytes(b"id,at,v\n" + content)
    content, in_packed = mixed(json_of(range(700, 1000)), BAD_JSON)
    (folder / "packed" / "0.json.gz").write_bytes(gzip.compress(content))
    case.produce(range(950, 1200))
    policies = {"lines": "quarantine", "sheet": "drop", "packed": "quarantine"}

    def edit(document: dict[str, Any]) -> None:
        formats = {"lines": "json", "sheet": "csv", "packed": "json"}
        document["sources"][:1] = [
            source(name, format=formats[name], on_bad_record=policy)
            for name, policy in policies.items()
        ]

    told = f"Source `packed`: {len(in_packed)} of the sampled rows are bad."
    assert any(text.startswith(told) for text in make_plan(case.pipeline(edit)).warnings)
    # The policy may change at any time.
    policies["lines"] = "fail"
    told = rf"lines/0\.json, byte {in_lines[0][0]}: it is not a JSON object"
    with pytest.raises(StreamingQueryException) as caught:
        run_history(spark, case.pipeline(edit))
    failure = report_of(caught.value)
    assert re.search(told, failure.message)
    assert (failure.kind, failure.transient) == ("input", False)
    policies["lines"] = "quarantine"
    loaded = case.pipeline(edit)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    generation = loaded.require_generation()
    beat = read_heartbeat(generation, "lines")
    assert beat is not None
    assert describe(beat).endswith(f", {len(in_lines)} bad records")
    assert kept(loaded, "lines") == [(f"{folder}/lines/0.json", *each) for each in in_lines]
    assert kept(loaded, "packed") == [(f"{folder}/packed/0.json.gz", *each) for each in in_packed]
    assert {row["source"] for row in quarantined(loaded, "lines")} == {"lines"}
    assert all(row["reason"] for row in quarantined(loaded, "packed"))
    assert not generation.path("quarantine/sheet").exists()
    dropped = generation.read(bad_count_name("sheet"), BadRecordCount)
    assert dropped is not None
    assert dropped.total == len(in_sheet)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1200, {})
    assert report.ok
    counts = [(line.source, line.found, line.counted, line.lacking) for line in report.bad_records]
    assert counts == [
        ("lines", len(in_lines), len(in_lines), 0),
        ("sheet", len(in_sheet), len(in_sheet), None),
        ("packed", len(in_packed), len(in_packed), 0),
    ]


def test_whatever_is_interrupted_each_bad_row_is_kept_once(case: Case, spark: SparkSession) -> None:
    content, places = mixed(json_of(range(600)), BAD_JSON)
    (case.folder / "lines" / "0.json").write_bytes(content)
    case.produce(range(500, 700))

    loaded = case.pipeline(quarantined_lines)
    # The driver dies before it collects: what is staged is all there is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collector, "collect", lambda _: BadRecordCount(source="lines"))
        run_history(spark, loaded)
    generation = loaded.require_generation()
    staged = staging_folder(generation, "lines").root
    shutil.copytree(staged, case.folder / "staged")
    last = max(int(folder.name) for folder in staged.iterdir())
    assert last == offset_log.last_committed(generation.checkpoint)
    # It dies between the sink's commit and Spark's: the replay is skipped, and stages nothing.
    for name in (str(last), f".{last}.crc"):
        (generation.checkpoint.root / "commits" / name).unlink()
    event_time = loaded.pipeline.event_time
    collector = Collector(
        generation, "lines", history_of(loaded), event_time, loaded.pipeline.stores
    )
    assert 0 < collector.collect().total < len(places)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded)
    expected = [(f"{case.folder}/lines/0.json", *place) for place in places]
    assert kept(loaded, "lines") == expected
    # It dies after the table was written, before the folders were removed.
    shutil.copytree(case.folder / "staged", staged, dirs_exist_ok=True)
    assert collector.collect().total == len(places)
    assert kept(loaded, "lines") == expected
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (700, {})
    assert report.ok


@pytest.mark.crash
def test_a_killed_run_over_files_loses_and_doubles_no_bad_row(case: Case) -> None:
    content, places = mixed(json_of(range(600)), BAD_JSON)
    (case.folder / "lines" / "0.json").write_bytes(content)
    case.produce(range(500, 700))

    loaded = case.pipeline(quarantined_lines)
    chain_plan.plan(loaded)
    seen: list[int] = []

    def kill(beat: Heartbeat) -> None:
        if beat.batch_id is not None and not seen:
            # Somewhere among the batches, whatever is staged, written or counted by then.
            seen.append(beat.batch_id)
            os.killpg(os.getpgid(beat.pid), signal.SIGKILL)

    with pytest.raises(RunError):
        bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded), on_beat=kill)
    wait_for(lambda: not live_run.is_live(loaded), "the lock of the dead driver", 60)
    bounded_run.run_bounded(PipelineContext.require(loaded), history_of(loaded))
    assert kept(loaded, "lines") == [(f"{case.folder}/lines/0.json", *each) for each in places]
    counted = loaded.require_generation().read(bad_count_name("lines"), BadRecordCount)
    assert counted is not None
    assert counted.total == len(places)
