"""What else a pipeline can do, with state, checkpoint and target in a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from tests.command_line import invoke
from tests.e2e.case import BEGIN, Case, run_through, start_live, wrong
from tests.services.lake import Edit, lake

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
BAD = (b'{"id": "x"', b"[1]", b"\xff\xfe")


@pytest.fixture
def move(tmp_path: Path) -> Iterator[Edit]:
    with lake("s3", tmp_path) as made:
        yield made


def send(case: Case, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": case.servers, "enable.idempotence": True})
    for value in values:
        producer.produce(case.topic, value, partition=0, timestamp=1704200000000)
    assert producer.flush(30) == 0


def rows_of(folder: Folder) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = delta_table(folder).to_pyarrow_table().to_pylist()
    return rows


def backfill(loaded: LoadedPipeline, since: int, until: int) -> dict[str, Any]:
    """``hybrid backfill`` of the events from one number to another."""
    moments = [f"{BEGIN + timedelta(minutes=n):%Y-%m-%dT%H:%M:%SZ}" for n in (since, until)]
    options = ["--since", moments[0], "--until", moments[1], "--json"]
    done = invoke(["backfill", str(loaded.path), *options])
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.exit_code, answer["ok"]) == (0, True), answer
    return answer


def test_a_range_is_made_again_while_the_stream_goes_on(
    tmp_path: Path, servers: str, move: Edit
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(1000, 1200))
    loaded = case.pipeline(move)
    try:
        start_live(loaded)
        # Every other event of five hours is wrong, and the rest of one file is gone.
        case.write_history([*range(300), *range(300, 500, 2), *range(600, 1000)], files=1)
        for name in ("1", "2", "3"):
            (tmp_path / "in" / f"{name}.parquet").unlink()
        answer = backfill(loaded, 300, 540)
        assert (answer["removed"], answer["written"], answer["kept_live"]) == (240, 100, 0)
        case.produce(range(1200, 1400))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    ids = [*range(300), *range(300, 500, 2), *range(540, 1400)]
    found = sorted((row["id"], row["v"]) for row in rows_of(loaded.target))
    assert found == [(n, n / 2) for n in ids]


def test_bad_records_are_kept_in_the_bucket_and_all_others_arrive(
    tmp_path: Path, servers: str, move: Edit
) -> None:
    def edit(document: dict[str, Any]) -> None:
        move(document)
        document["sources"][1]["on_bad_record"] = "quarantine"

    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 700))
    send(case, *BAD[:1])
    case.produce(range(700, 900))
    send(case, *BAD[1:])
    loaded = case.pipeline(edit)
    report = run_through(loaded)
    assert (report.expected, wrong(report), report.ok) == (900, {}, True)
    line = report.bad_records[0]
    assert (line.found, line.counted, line.lacking) == (len(BAD), len(BAD), 0)
    kept = rows_of(loaded.require_generation().folder("quarantine/live"))
    assert sorted((row["offset"], row["value"]) for row in kept) == [
        (200, BAD[0]),
        (401, BAD[1]),
        (402, BAD[2]),
    ]


def test_a_delete_in_the_bucket_outlives_an_older_change_that_comes_later(
    tmp_path: Path, servers: str, move: Edit
) -> None:
    def edit(document: dict[str, Any]) -> None:
        move(document)
        document["transform"] = "transforms:changes"
        document["sink"] |= {"mode": "merge", "sequence": "seq", "deleted": "gone"}

    case = Case(tmp_path, servers)
    with (tmp_path / "transforms.py").open("a") as file:
        file.write(
            "\ndef changes(rows):\n"
            "    # Event n changes entity n mod 100; the ten hundredth of each kind delete it.\n"
            "    entity = F.col('id') % 100\n"
            "    gone = (F.col('id') >= 900) & (entity < 10)\n"
            "    return rows.select(entity.alias('id'), 'v', F.col('id').alias('seq'),\n"
            "                       gone.alias('gone'))\n"
        )
    case.write_history(range(600))
    case.produce(range(500, 1000))
    loaded = case.pipeline(edit)
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        # Older than the deletes of 900 to 909, and of entities that are gone.
        case.produce(range(800, 820))
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    found = sorted((row["id"], row["v"]) for row in rows_of(loaded.target))
    assert found == [(n, (900 + n) / 2) for n in range(10, 100)]
