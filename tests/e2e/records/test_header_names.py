"""Records with a header whose name is no text, read by Spark and by tasks that read ranges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.case import Case, moment, wrong
from tests.e2e.in_session import run_and_audit
from tests.raw_headers import send

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize("is_bounded", [False, True], ids=["followed", "range"])
def test_header_names_that_are_not_text_make_bad_records_in_run_and_audit(
    tmp_path: Path, servers: str, spark: SparkSession, is_bounded: bool
) -> None:
    case = Case(tmp_path, servers)
    case.produce(range(40))
    value = json.dumps({"id": 77, "at": f"{moment(77):%Y-%m-%dT%H:%M:%SZ}", "v": 1.5}).encode()
    send(servers, case.topic, b"good", value)
    send(servers, case.topic, b"\xff\xfe", value)

    def edit(document: dict[str, Any]) -> None:
        live = document["sources"].pop()
        live |= {
            "schema": {"id": "bigint", "at": "timestamp", "v": "double"},
            "include": {"h": "headers"},
            "start": "earliest",
            "on_bad_record": "drop",
        }
        document["sources"] = [live]
        if is_bounded:
            document["sources"] = [{**live, "name": "range", "until": "latest"}, live]
            live["start"] = "previous"

    report = run_and_audit(spark, case.pipeline(edit))
    assert (report.expected, wrong(report)) == (41, {})
    assert report.ok
    assert sum(line.found for line in report.bad_records) == 1
