"""Watching a query: the error that ends it is the one that is raised."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.inside.driver.watch import watch


class Query:
    """A query that fails in Spark by itself, or runs until it is stopped."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure
        self.isActive = failure is None
        self.lastProgress = None

    def stop(self) -> None:
        self.isActive = False

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
