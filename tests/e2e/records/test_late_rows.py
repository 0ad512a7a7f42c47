"""Rows that the watermark dropped: the audit counts them, however green the run was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, live_of, moment, windows, wrong
from tests.e2e.in_session import run_history, run_live

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
LATE = 5


def test_a_windowed_feature_that_lost_late_rows_is_seen(
    tmp_path: Path, servers: str, spark: SparkSession
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce(range(900, 1500))
    loaded = case.pipeline(windows)

    def send_late_rows() -> None:
        # All in one hour, which lies in three windows; the watermark has passed them long ago.
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for number in range(9000, 9000 + LATE):
            at = f"{moment(600):%Y-%m-%dT%H:%M:%SZ}"
            value = json.dumps({"id": number, "at": at, "v": 1.0})
            producer.produce(case.topic, value, partition=0)
        assert producer.flush(30) == 0

    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    run_live(spark, loaded, meanwhile=send_late_rows)
    report = audit(loaded)
    assert (report.outcome, wrong(report)) == ("failed", {"different": 3})
    counts = [
        (example.expected, example.found)
        for example in report.examples["different"]
        if example.column == "n"
    ]
    assert [expected - found for expected, found in counts] == [LATE] * 3
    assert {line.outcome for line in report.ledger} == {"agrees"}
