"""Watching a query: the error that ends it is the one that is raised."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from sources.errors import InputError
from spark_jobs.inside.driver.watch import watch
from spark_jobs.inside.errors.error_reports import ReportedError


class Query:
    """A query that fails in Spark by itself, or runs until it is stopped."""

    def __init__(self, failure: Exception | None, interrupted: Exception | None = None) -> None:
        self._failure = failure
        self._interrupted = interrupted
        self.isActive = failure is None
        self.lastProgress = None

    def stop(self) -> None:
        self.isActive = False
        self._failure = self._interrupted

    def awaitTermination(self, _: float | None = None) -> bool:  # noqa: N802 - Spark's name
        if self._failure is not None:
            raise self._failure
        return not self.isActive


def run(query: Query, look: Exception | None) -> None:
    """Watch it; each last report fails, as a quarantine table can't be written."""

    def has_lease() -> bool:
        if look is not None:
            raise look
        return True

    def refuse(*_: object) -> None:
        raise OSError("the last report fails")

    reports: Any = SimpleNamespace(late_rows=refuse, seam=refuse, progress=lambda _: None)
    reporter: Any = SimpleNamespace(has_lease=has_lease, bad_records=refuse)
    pipeline = SimpleNamespace(captures_tables=False)
    declared = SimpleNamespace(context=SimpleNamespace(pipeline=pipeline))
    running: Any = SimpleNamespace(spark_query=query, declared=declared)
    bad_records: Any = SimpleNamespace(collect=dict)
    watch(running, reports, reporter, bad_records, threading.Event(), lambda: False)


def stopped(interrupted: Exception) -> list[str]:
    """Stop a running query that ends with this; returns what the driver's log says."""
    said: list[str] = []
    nothing: Any = SimpleNamespace(
        late_rows=lambda _: None, seam=lambda _: None, progress=lambda _: None
    )
    reporter: Any = SimpleNamespace(
        bad_records=lambda _: None, listeners=SimpleNamespace(log=said.append)
    )
    guard = SimpleNamespace(look=lambda: None, keep=lambda: None)
    declared = SimpleNamespace(
        context=SimpleNamespace(pipeline=SimpleNamespace(captures_tables=False))
    )
    query = Query(None, interrupted)
    running: Any = SimpleNamespace(spark_query=query, declared=declared, guard=guard)
    collectors: Any = SimpleNamespace(collect=dict)
    stop = threading.Event()
    stop.set()
    watch(running, nothing, reporter, collectors, stop, lambda: False)
    return said


def test_a_query_that_only_the_stop_made_fail_has_ended_and_not_failed() -> None:
    [line] = stopped(StreamingQueryException("[STREAM_FAILED] Query terminated with exception: "))
    assert line.startswith("Stopping the query interrupted Spark: [STREAM_FAILED]")
    assert line.endswith("What was not committed is read again by the next query.")


def test_a_bad_record_that_is_met_during_the_stop_is_raised() -> None:
    report = InputError("Offset 7 is no JSON.", "Correct the record.").report()
    with pytest.raises(StreamingQueryException, match="Offset 7 is no JSON"):
        stopped(StreamingQueryException(str(ReportedError(report))))


def test_the_error_of_a_look_is_not_replaced_by_that_of_a_last_report() -> None:
    query = Query(None)
    with pytest.raises(RuntimeError, match="the look fails"):
        run(query, RuntimeError("the look fails"))
    assert not query.isActive


def test_the_failure_of_the_query_is_not_replaced_by_that_of_a_last_report() -> None:
    with pytest.raises(RuntimeError, match="the query fails"):
        run(Query(RuntimeError("the query fails")), None)


def test_what_a_last_report_meets_alone_is_raised() -> None:
    query = Query(None)
    query.isActive = False
    with pytest.raises(OSError, match="the last report fails"):
        run(query, None)
