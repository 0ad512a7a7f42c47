"""Which of Spark's progress reports are passed on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.inside.driver.reports.progress_reports import ProgressReports


class Report:
    """A report as the JVM keeps it; ``ran`` is whether its trigger ran a micro-batch."""

    def __init__(self, batch: int, at: int, *, ran: bool) -> None:
        self._batch, self._at, self._ran = batch, at, ran

    def batchId(self) -> int:  # noqa: N802 - the JVM's name
        return self._batch

    def timestamp(self) -> str:
        return f"2024-01-01T00:00:{self._at:02}.000Z"

    def json(self) -> str:
        durations = {"addBatch": 5} if self._ran else {}
        return json.dumps({"batchId": self._batch, "durationMs": durations})


class Query:
    """A query that has reported something."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.numbers: list[int] = []
        self.read = ProgressReports()

    def reported(self, batch: int, *, ran: bool = True) -> None:
        self.reports.append(Report(batch, len(self.reports), ran=ran))

    def pass_on(self, after: int = -1) -> list[int]:
        """Numbers of the micro-batches that are passed on."""
        self.numbers.clear()
        self.read.pass_on(self.running(), after, self._use)
        return sorted(self.numbers)

    def running(self) -> StreamingQuery:
        latest = self.reports[-1] if self.reports else None
        jvm = SimpleNamespace(lastProgress=lambda: latest, recentProgress=lambda: self.reports)
        return cast(StreamingQuery, SimpleNamespace(_jsq=jvm))

    def _use(self, reports: Sequence[dict[str, Any]]) -> None:
        self.numbers.extend(each["batchId"] for each in reports)


def test_each_report_is_passed_on_once() -> None:
    query = Query()
    assert query.pass_on() == []
    query.reported(4)
    query.reported(5)
    assert query.pass_on() == [4, 5]
    assert query.pass_on() == []
    query.reported(6)
    assert query.pass_on(after=5) == [6]


def test_a_trigger_without_a_micro_batch_is_not_taken_for_the_one_that_comes() -> None:
    query = Query()
    query.reported(0, ran=False)
    assert query.pass_on() == []
    query.reported(0)
    assert query.pass_on() == [0]


def test_reports_that_could_not_be_used_are_passed_on_again() -> None:
    query = Query()
    query.reported(0)

    def fails(_: Sequence[dict[str, Any]]) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        query.read.pass_on(query.running(), -1, fails)
    assert query.pass_on() == [0]
