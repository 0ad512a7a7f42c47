"""Answers on a terminal say what is unusual, and nothing of what is not there."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from hybrid_extensions.comparison import terminal as comparison_terminal
from orchestration.cli import terminal_tables
from orchestration.cli.after_plan import after_plan
from orchestration.comparison.report import (
    AuditExample,
    AuditReport,
    BadLine,
    InputRows,
    LedgerLine,
)
from orchestration.progress.plan_preview import preview
from orchestration.supervision.source_status import SourceState, SourceStatus
from orchestration.supervision.status import Status
from sources.common.times import iso
from sources.planning.approval import approve
from sources.planning.plan import make_plan
from spark_jobs.run_state.heartbeat import Heartbeat, heartbeat_name
from tests.minimal import minimal_pipeline
from tests.sources.files.dirty_files import EPOCH, FUTURE, minute, write_files


def text(shown: RenderableType, width: int = 200) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(shown)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def status_with(
    bad_records: int,
    eta_s: float | None = None,
    late_rows: int | None = None,
    rows_per_s: float | None = None,
) -> Status:
    beat = Heartbeat(
        launch_id="l",
        pid=1,
        host="somewhere",
        source="live",
        phase="unbounded",
        state="running",
        at_ms=0,
        bad_records=bad_records,
        late_rows=late_rows,
        rows_per_s=rows_per_s,
    )
    sources = [
        SourceStatus(source="history", state="finished"),
        SourceStatus(source="live", state="running", heartbeat=beat, eta_s=eta_s),
    ]
    return Status(
        pipeline="p", generation="g1", serving="g1", planned=True, healthy=True, sources=sources
    )


def test_bad_records_are_shown_once_there_are_some() -> None:
    assert "bad records" not in text(terminal_tables.status(status_with(0)))
    shown = text(terminal_tables.status(status_with(1234)))
    assert "bad records" in shown
    assert "1,234" in shown


def test_splits_are_counted_from_none_with_thousands_apart() -> None:
    found = status_with(0)
    beat = found.sources[-1].heartbeat
    assert beat is not None
    begun = beat.model_copy(update={"splits_total": 5678})
    for done, told in ((None, "0/5,678"), (1234, "1,234/5,678")):
        source = found.sources[-1].model_copy(
            update={"heartbeat": begun.model_copy(update={"splits_done": done})}
        )
        shown = text(terminal_tables.status(found.model_copy(update={"sources": [source]})))
        assert f" {told} " in shown


def test_a_rate_is_shown_of_what_runs_where_rows_were_counted() -> None:
    assert "1,498" in text(terminal_tables.status(status_with(0, rows_per_s=1498.2)))
    paused = status_with(0, rows_per_s=1498.2)
    paused.sources[1].state = "stopped"
    assert "1,498" not in text(terminal_tables.status(paused))
    uncounted = text(terminal_tables.status(status_with(0, rows_per_s=0.0)))
    assert uncounted == text(terminal_tables.status(status_with(0)))


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("dead", "dead: the driver of `history` is gone without a word, as after a kill."),
        ("stopped", "stopped: `history` was ended before its end; `hybrid run P` goes on"),
    ],
)
def test_a_history_that_ended_early_is_said_with_the_way_on(state: SourceState, told: str) -> None:
    sources = [SourceStatus(source="history", state=state)]
    found = status_with(0).model_copy(update={"sources": sources})
    assert told in text(terminal_tables.status(found))


def test_late_rows_are_shown_once_there_are_some() -> None:
    assert "late rows" not in text(terminal_tables.status(status_with(0, late_rows=0)))
    shown = text(terminal_tables.status(status_with(0, late_rows=4321)))
    assert "late rows" in shown
    assert "4,321" in shown


def test_the_time_left_is_told_where_it_is_known() -> None:
    assert "2 min 5 s" not in text(terminal_tables.status(status_with(0)))
    assert "2 min 5 s" in text(terminal_tables.status(status_with(0, eta_s=125)))
    assert "none" not in text(terminal_tables.status(status_with(0, eta_s=0)))


def report_with(**parts: Any) -> AuditReport:
    counts: dict[str, Any] = dict.fromkeys(
        ("missing", "duplicated", "different", "unexpected", "ambiguous"), 0
    )
    lines: dict[str, Any] = {"ledger": [], "bad_records": [], "unchecked": [], "notes": [], **parts}
    read = InputRows({}, 1)
    return AuditReport(
        pipeline="p",
        expected=1,
        found=1,
        examples={},
        input_rows=read,
        seconds=0,
        **counts,
        **lines,
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            BadLine("live", "drop", 3, 3, None, "agrees"),
            "3 found by the audit, 3 dropped by the runs.",
        ),
        (
            BadLine("live", "quarantine", 3, 2, 1, "differs"),
            "3 found by the audit, 2 quarantined by the runs; 1 is missing from the quarantine "
            "table.",
        ),
        (
            BadLine("live", "drop", 0, None, None, "unknown"),
            "0 found by the audit; no run has counted.",
        ),
    ],
)
def test_the_audit_says_what_became_of_bad_records(line: BadLine, told: str) -> None:
    report = report_with(bad_records=[line], notes=["Rows at [version] 3."])
    shown = text(comparison_terminal.audit(report))
    assert "Note: Rows at [version] 3." in shown
    assert f"Bad records of `live`: {told}" in shown
    verdict = {"agrees": "Passed", "differs": "Failed", "unknown": "Unknown"}[line.outcome]
    assert f"{verdict}: " in shown
    assert report.ok == (line.outcome == "agrees")


def test_rows_of_a_seam_have_thousands_apart_and_offsets_have_not() -> None:
    line = LedgerLine("live", "t", 0, 4779, 4780, 57_102, 1_997, 1_996, None, "differs", "Why.")
    report = report_with(ledger=[line])
    shown = text(comparison_terminal.audit(report))
    cells = re.sub(r"[│ ]+", " ", shown)
    assert " live t 0 4779 4780 57,102 1,997 1,996 differs: Why. " in cells


@pytest.mark.parametrize("outside", [False, True])
def test_times_of_a_plan_are_readable_at_80_columns(tmp_path: Path, outside: bool) -> None:
    wrong = [FUTURE, EPOCH] if outside else []
    write_files(tmp_path, "parquet", [[minute(0), minute(1), *wrong]])
    loaded = minimal_pipeline(
        tmp_path,
        {"name": "h" * 30, "type": "files", "path": "in", "format": "parquet"},
        name="p",
        event_time={"column": "at", "outside": "drop"},
    )
    made = make_plan(loaded)
    shown = text(terminal_tables.plan(made, preview(loaded, made), after_plan(loaded)), width=80)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.startswith(f"Plan of p, made at {iso(made.created_ms)}\nReads 1 file, ")
    assert shown.endswith("`hybrid run P`.\n")
    table = shown[shown.index("Event times") : shown.index("Columns")]
    assert "1 Jan 2024 12:00" in table
    assert "1 Jan 2024 12:01" in table
    assert ("1 Jun 2099 00:00" in table) == outside
    assert ("1 Jan 1970 00:00" in table) == outside
    assert (re.search(r"│ 2 +│ 1 Jan 1970", table) is not None) == outside


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (AuditExample({"id": 5}, "paid", 4, None), "id=5: `paid` is null instead of 4"),
        (AuditExample({"id": 5}, "tags", ["a"], {"b": True}), '{"b": true} instead of ["a"]'),
        (AuditExample({"day": "2024-01-01", "id": 5}, None, 1, 0), "id=5: 0 rows instead of 1"),
        (AuditExample({"id": 5}, "paid", [1, 2], None), "`paid` may be 1 or 2"),
    ],
)
def test_an_example_is_told_in_words(example: AuditExample, told: str) -> None:
    assert told in str(example)


def test_a_plan_ends_with_the_command_that_follows(tmp_path: Path) -> None:
    write_files(tmp_path, "parquet", [[minute(0)]])
    files = {"name": "history", "type": "files", "path": "in", "format": "parquet"}
    make_plan(minimal_pipeline(tmp_path, files, name="p"))
    asking = minimal_pipeline(tmp_path, files, name="p", approve=True)
    assert "`hybrid approve P`. Then run it: `hybrid run P`." in after_plan(asking)
    approve(asking, "Ada")
    assert after_plan(asking).startswith("Nothing is read yet.")
    generation = asking.require_generation()
    beat = status_with(0).sources[-1].heartbeat
    assert beat is not None
    generation.replace(heartbeat_name("history"), beat)
    assert "`hybrid status P`" in after_plan(asking)
