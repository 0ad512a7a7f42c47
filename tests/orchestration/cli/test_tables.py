"""Answers on a terminal say what is unusual, and nothing of what is not there."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from orchestration.audit.report import AuditReport, BadLine, InputRows
from orchestration.cli import tables
from orchestration.supervision.source_status import SourceStatus
from orchestration.supervision.status import Status
from spark_jobs.run_state.heartbeat import Heartbeat


def text(shown: RenderableType) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(shown)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def status_with(bad_records: int, eta_s: float | None = None) -> Status:
    beat = Heartbeat(
        launch_id="l",
        pid=1,
        host="somewhere",
        source="live",
        phase="unbounded",
        state="running",
        at_ms=0,
        bad_records=bad_records,
    )
    sources = [
        SourceStatus(source="history", state="finished"),
        SourceStatus(source="live", state="running", heartbeat=beat, eta_s=eta_s),
    ]
    return Status(
        pipeline="p", generation="g1", serving="g1", planned=True, healthy=True, sources=sources
    )


def test_bad_records_are_shown_once_there_are_some() -> None:
    assert "bad records" not in text(tables.status(status_with(0)))
    shown = text(tables.status(status_with(1234)))
    assert "bad records" in shown
    assert "1,234" in shown


def test_the_time_left_is_told_where_it_is_known() -> None:
    assert "2 min 5 s" not in text(tables.status(status_with(0)))
    assert "2 min 5 s" in text(tables.status(status_with(0, eta_s=125)))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (BadLine("live", "drop", 3, 3, None, True), "3 found by the audit, 3 dropped by the runs."),
        (
            BadLine("live", "quarantine", 3, 2, 1, False),
            "3 found by the audit, 2 quarantined by the runs; 1 are missing from the quarantine "
            "table.",
        ),
        (BadLine("live", "drop", 0, None, None, True), "0 found by the audit; no run has counted."),
    ],
)
def test_the_audit_says_what_became_of_bad_records(line: BadLine, told: str) -> None:
    report = AuditReport(
        pipeline="p",
        expected=1,
        found=1,
        missing=0,
        duplicated=0,
        different=0,
        unexpected=0,
        examples={},
        input_rows=InputRows({}, 1),
        ledger=[],
        bad_records=[line],
        notes=[],
        seconds=0,
    )
    assert f"Bad records of `live`: {told}" in text(tables.audit(report))
    assert report.ok == line.agrees
