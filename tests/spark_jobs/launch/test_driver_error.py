"""What is raised for a driver that ended: its own report, or that there was none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.errors import ErrorReport
from spark_jobs.launch.driver_error import DriverError
from spark_jobs.launch.places.base import DriverStatus
from spark_jobs.launch.runs import last_driver
from spark_jobs.launch.watched_run import WatchedRun
from tests.orchestration.supervision.live_case import LiveCase

GAP = ErrorReport(
    kind="seam",
    message="Records are missing.",
    hint="Accept the gap.",
    fields={"topic": "t", "partition": 3},
)


def failure_of(case: LiveCase) -> DriverError:
    driver = last_driver(case.generation)
    assert driver is not None
    return WatchedRun(driver).failure()


def test_the_report_of_the_driver_crosses_over_with_kind_fields_and_flag(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    for is_transient in (False, True):
        reported = GAP.model_copy(update={"transient": is_transient})
        case.launch("a", state="failed", failure=reported)
        error = failure_of(case)
        assert error.transient == is_transient
        assert str(error) == (
            "The Spark run of `inbox` ended. Records are missing. Accept the gap."
        )
        assert error.report() == ErrorReport(
            kind="seam",
            message="The Spark run of `inbox` ended. Records are missing.",
            hint="Accept the gap.",
            transient=is_transient,
            fields={"source": "inbox", "topic": "t", "partition": 3},
        )


@pytest.mark.parametrize("status", [-9, 137])
def test_a_driver_that_was_killed_says_so_and_shows_no_lines_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    case = LiveCase(tmp_path)
    case.launch("a", state="running")
    case.generation.path("run/inbox.log").write_text("noise of Spark\n")
    ended = DriverStatus("ended", is_good=False, reason=f"with status {status}")
    monkeypatch.setattr(WatchedRun, "_ended", lambda _: ended)
    error = failure_of(case)
    assert error.transient
    assert error.message == (
        f"The Spark run of `inbox` ended with status {status}. It was killed: by a person, or by "
        "the system because memory ran out."
    )
    assert error.hint.startswith("Run the pipeline again: `hybrid run P`.")


def test_a_driver_that_ended_without_a_report_is_worth_another_attempt(tmp_path: Path) -> None:
    case = LiveCase(tmp_path)
    case.launch("a", state="running")
    log = case.generation.path("run/inbox.log")
    log.write_text("one\nKilled\n")
    report = failure_of(case).report()
    assert (report.kind, report.transient, report.fields) == ("run", True, {"source": "inbox"})
    assert report.message.endswith("ended. The last lines:\none\nKilled")
