"""Rows of files that break a rule, by the audit's own count: what runs say is no proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.comparison.report import AuditReport, BadLine
from sources.config.source.bad_record_policy import BadRecordCount, bad_count_name
from sources.planning.plan import make_plan
from sources.state.generation import Generation
from tests.hybrid_extensions.audit.audit_case import Case, row, wrong

# Ids 7, 8 and 9 break the first rule; 8 and 9 the second one, which is asked later.
ROWS = [row(number) for number in range(10)]
KEPT = ROWS[:7]


def declared(policy: str) -> dict[str, Any]:
    history = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}
    rules = {
        "few": {"check": "seats < 107", "on_violation": policy},
        "known": {"check": "id < 8", "on_violation": policy},
    }
    return {"sources": [history], "rules": rules}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    case.history(ROWS)
    case.target(KEPT)
    return case


def lines_of(report: AuditReport) -> dict[str, BadLine]:
    return {line.kind: line for line in report.bad_records}


def tell(generation: Generation, counted: int, quarantined: int) -> None:
    """Write what a run says that it left out by the first rule."""
    count = BadRecordCount(source="history", broken={"few": counted})
    generation.replace(bad_count_name("history"), count)
    kinds = [*["rule.few"] * quarantined, "rule.known"]
    of_files = {"place": "x", "partition": None, "offset": None}
    schema = pa.schema(
        {"place": "string", "partition": "int32", "offset": "int64", "kind": "string"}
    )
    kept = pa.Table.from_pylist([{**of_files, "kind": kind} for kind in kinds], schema)
    write_deltalake(str(generation.path("quarantine/history")), kept, mode="overwrite")


def planned(case: Case, policy: str) -> Generation:
    loaded = case.loaded(**declared(policy))
    make_plan(loaded)
    return loaded.require_generation()


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_rows_that_were_left_out_are_counted_again(case: Case, policy: str) -> None:
    tell(planned(case, policy), 3, 3)
    report = case.audit(**declared(policy))
    assert (report.outcome, wrong(report)) == ("passed", {})
    # A row is counted by the first rule that it breaks alone.
    found = {kind: (line.found, line.counted) for kind, line in lines_of(report).items()}
    assert found == {"rule.few": (3, 3), "rule.known": (0, 0)}


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_rows_that_no_run_has_counted_are_not_proved(case: Case, policy: str) -> None:
    line = lines_of(case.audit(**declared(policy)))["rule.few"]
    assert (line.found, line.counted, line.lacking) == (3, None, None)
    assert (line.outcome, line.reason) == ("unknown", "no run has counted")


@pytest.mark.parametrize(
    ("policy", "counted", "quarantined", "lacking"),
    [
        ("drop", 2, 0, None),
        ("drop", 4, 0, None),
        ("quarantine", 2, 3, 0),
        ("quarantine", 4, 3, 0),
        ("quarantine", 3, 2, 1),
        ("quarantine", 3, 0, 3),
    ],
)
def test_a_run_that_left_out_or_kept_another_number_is_found_out(
    case: Case, policy: str, counted: int, quarantined: int, lacking: int | None
) -> None:
    tell(planned(case, policy), counted, quarantined)
    line = lines_of(case.audit(**declared(policy)))["rule.few"]
    assert (line.found, line.counted, line.lacking) == (3, counted, lacking)
    assert line.outcome == "differs"


def test_a_row_that_no_run_may_pass_is_wrong_although_the_table_lacks_it(case: Case) -> None:
    report = case.audit(**declared("fail"))
    assert (report.outcome, wrong(report)) == ("failed", {})
    # No line for the rule that no row breaks by itself.
    [line] = report.bad_records
    assert (line.kind, line.policy, line.found, line.outcome) == ("rule.few", "fail", 3, "differs")
    assert "no run may pass them" in str(line.reason)
