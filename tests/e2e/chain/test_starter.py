"""What ``hybrid init`` wrote runs as it is, and its audit proves the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.starter.written_pipeline import StarterOptions, start
from tests.e2e.case import wrong
from tests.e2e.in_session import run_history
from tests.hybrid_extensions.starter.test_init import table, write

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_a_pipeline_that_was_started_runs_as_it_is(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "data" / "a.jsonl.gz", table())
    loaded, _, _ = start(tmp_path, StarterOptions("mine", "data/*"))
    run_history(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (2, {}, True)


def test_a_pipeline_by_the_fields_of_structs_runs_as_it_is(
    tmp_path: Path, spark: SparkSession
) -> None:
    lines = [{"event": {"id": f"e-{n}", "at": f"2024-01-0{n}T00:00:00Z"}, "v": n} for n in (1, 2)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = StarterOptions("mine", "*.jsonl", event_time="event.at", key=["event.id"])
    loaded, _, _ = start(tmp_path, options)
    run_history(spark, loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (2, {}, True)
