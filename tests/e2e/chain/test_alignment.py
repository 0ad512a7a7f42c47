"""Partitions of a live topic that are far apart in time lose no row behind the watermark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from orchestration.audit.run import audit
from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.e2e.case import Case, as_json, moment, wrong
from tests.e2e.in_session import run_chain, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
TRANSFORM = """
from pyspark.sql import functions as F

def ten_minutes(rows):
    return (
        rows.withWatermark("at", "10 minutes").groupBy(F.window("at", "10 minutes"))
        .agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        .select(F.col("window.start").alias("start"), "n", "total")
    )
"""
SQL = """
SELECT to_timestamp(floor(epoch("at") / 600) * 600) AS start, count(*) AS n, sum(v) AS total
FROM input GROUP BY ALL
"""
FAST, SLOW = 0, 1


class Apart(Case):
    """History up to minute 100; then partition 0 in time, and partition 1 forty minutes behind."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, servers, partitions=2)
        (folder / "windowed.py").write_text(TRANSFORM)
        (folder / "windowed.sql").write_text(SQL)
        self.write_history(range(100), files=1)

    def send(self, partition: int, numbers: Iterable[int]) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for n in numbers:
            timestamp = int(moment(n).timestamp() * 1000)
            producer.produce(self.topic, as_json(n), partition=partition, timestamp=timestamp)
        assert producer.flush(30) == 0

    def windows(self, align: dict[str, str] | None, **live: object) -> LoadedPipeline:
        def edit(document: dict[str, Any]) -> None:
            document["transform"] = "windowed:ten_minutes"
            document["sink"] = {"path": "out", "mode": "merge", "key": ["start"]}
            document["audit"] = {"sql": "windowed.sql"}
            document["sources"][1] |= {**live, **({} if align is None else {"align": align})}

        return self.pipeline(edit)


def holding(loaded: LoadedPipeline, case: Apart, *ends: int) -> Heartbeat | None:
    """The heartbeat, if the run has read each partition up to there and holds the rest back."""
    beat = read_heartbeat(loaded.require_generation(), "live")
    if beat is None or not beat.held_offsets:
        return None
    offsets = beat.offsets or {}
    reached = [offsets.get(TopicPartition(case.topic, n)) for n in range(len(ends))]
    return beat if reached == [*ends] else None


@contextmanager
def once_held(loaded: LoadedPipeline, case: Apart, *ends: int) -> Iterator[list[Heartbeat]]:
    """Meanwhile, once the live run has read up to there and holds the rest: send what is behind.

    Yields:
        A list that gets the heartbeat of that moment.
    """
    seen: list[Heartbeat] = []

    def send() -> None:
        try:
            wait_for(lambda: holding(loaded, case, *ends) is not None, "what is held", 300)
            seen.extend(filter(None, [holding(loaded, case, *ends)]))
        finally:
            case.send(SLOW, range(261, 300, 2))

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send)
        yield seen
        sent.result()


# In partition 0 lie the even minutes, in partition 1 the odd ones.
def test_a_partition_forty_minutes_behind_loses_no_row(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Apart(tmp_path, servers)
    case.send(FAST, range(100, 140, 2))
    case.send(SLOW, range(101, 140, 2))
    # A checkpoint from before anything was declared.
    run_chain(spark, case.windows(None))
    case.send(FAST, range(140, 300, 2))
    case.send(SLOW, range(141, 260, 2))
    # The backlog takes several micro-batches.
    loaded = case.windows({"drift": "10 min", "idle": "10 min"}, max_offsets_per_batch=60)
    # The last odd minute is 259: of the other partition is read what lies before minute 269.
    with once_held(loaded, case, 85, 80) as seen:
        last = run_live(spark, loaded)
    report = audit(loaded)
    assert (report.outcome, wrong(report)) == ("passed", {})
    assert report.input_rows.distinct == 300
    assert (last.late_rows, last.held_offsets, last.drift_ms) == (0, 0, 60_000)
    assert [(beat.drift_ms, beat.held_offsets) for beat in seen] == [(39 * 60_000, 15)]
