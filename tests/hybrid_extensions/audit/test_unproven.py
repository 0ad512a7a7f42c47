"""What only Spark evaluates is never called right, and never wrong, by the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from orchestration.comparison.report import AuditReport
from tests.extensions import needs
from tests.hybrid_extensions.audit.audit_case import COLUMNS, SCHEMA, Case, row, wrong

ROWS = [row(number) for number in range(12)]
PLAIN = {name: name for name in COLUMNS}
FILES = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """The target holds the rows of history as they are."""
    case = Case(tmp_path)
    case.history(ROWS)
    case.target(ROWS)
    return case


def selected(**expressions: str) -> dict[str, Any]:
    return {"sources": [{**FILES, "select": {**PLAIN, **expressions}}]}


def only_says(report: AuditReport, told: str) -> bool:
    return (report.outcome, wrong(report)) == ("unknown", {}) and any(
        told in sentence for sentence in report.unchecked
    )


@pytest.mark.parametrize("is_right", [True, False])
def test_a_column_that_only_spark_evaluates_is_not_compared(case: Case, is_right: bool) -> None:
    seats = {} if is_right else {"seats": -1}
    case.target_again([{**each, **seats} for each in ROWS])
    report = case.audit(**selected(seats="CAST(hash(seats) AS int)"))
    told = "Column `seats` is not compared: only Spark evaluates `select.seats: CAST(hash(seats)"
    assert only_says(report, told)
    assert (report.expected, report.found) == (12, 12)


def test_all_other_columns_are_compared_nevertheless(case: Case) -> None:
    case.target_again([{**ROWS[0], "delay": -1.0}, *ROWS[2:]])
    report = case.audit(**selected(seats="CAST(hash(seats) AS int)"))
    assert (report.outcome, wrong(report)) == ("failed", {"missing": 1, "different": 1})


def test_the_last_change_of_each_key_is_compared_without_a_column_that_only_spark_evaluates(
    case: Case,
) -> None:
    sink = {"path": "table", "mode": "merge", "key": ["id", "origin"], "sequence": "delay"}
    report = case.audit(**selected(seats="CAST(hash(seats) AS int)"), sink=sink)
    assert only_says(report, "Column `seats` is not compared")
    assert report.expected == 12


@pytest.mark.parametrize(
    "expressions",
    [
        {"at": "CAST(from_utc_timestamp(at, 'Europe/Berlin') AS timestamp)"},
        {"id": "CAST(hash(id) AS bigint)"},
    ],
)
def test_nothing_is_compared_if_such_a_column_decides_about_rows(
    case: Case, expressions: dict[str, str]
) -> None:
    case.target_again(ROWS[3:])
    report = case.audit(**selected(**expressions))
    (name,) = expressions
    assert only_says(report, f"Nothing was compared: only Spark evaluates `select.{name}: CAST(")
    assert (report.expected, report.found) == (0, 0)


def test_nothing_is_compared_by_a_query_that_may_use_such_a_column(case: Case) -> None:
    audit = case.sql("SELECT * FROM input")
    report = case.audit(**selected(seats="CAST(hash(seats) AS int)"), audit=audit)
    assert only_says(report, "Nothing was compared: only Spark evaluates `select.seats:")


@needs("expressions")
def test_nothing_is_compared_if_a_value_has_a_form_that_only_spark_reads(case: Case) -> None:
    case.history([row(1, origin=" 7"), row(2, origin="8\t")])
    case.target_again([row(1, seats=7), row(2, seats=9)])
    report = case.audit(**selected(seats="CAST(origin AS int)"))
    assert only_says(
        report, "Nothing was compared: there is a value of a form that only Spark reads: 8"
    )
    case.history([row(1, origin=" 7"), row(2, origin="8")])
    assert wrong(case.audit(**selected(seats="CAST(origin AS int)"))) == {
        "missing": 2,
        "unexpected": 2,
    }


@needs("expressions")
def test_a_rule_that_only_spark_evaluates_and_that_ends_the_run_is_unknown(case: Case) -> None:
    sources = {"sources": [FILES]}
    report = case.audit(**sources, rules={"odd": "hash(id) > 0"})
    assert (report.outcome, report.unchecked, wrong(report)) == ("unknown", [], {})
    (line,) = report.bad_records
    assert (line.kind, line.outcome) == ("rule.odd", "unknown")
    assert line.reason == (
        "only Spark evaluates rule `rules.odd: hash(id) > 0`: the function `hash` is not proven"
    )
    # The rows are compared, as the rule leaves none out.
    case.target_again(ROWS[1:])
    assert wrong(case.audit(**sources, rules={"odd": "hash(id) > 0"})) == {"missing": 1}


@pytest.mark.parametrize("policy", ["drop", "quarantine"])
def test_nothing_is_compared_if_such_a_rule_leaves_rows_out(case: Case, policy: str) -> None:
    case.target_again(ROWS[3:])
    rules = {"odd": {"check": "hash(id) > 0", "on_violation": policy}}
    report = case.audit(sources=[FILES], rules=rules)
    assert only_says(report, "Nothing was compared: only Spark evaluates rule `rules.odd:")


def test_no_expression_is_proven_under_other_settings_of_spark(case: Case) -> None:
    case.target_again([{**each, "seats": -1} for each in ROWS])
    spark = {"conf": {"spark.sql.ansi.enabled": "false"}}
    report = case.audit(**selected(seats="CAST(seats + 1 AS int)"), spark=spark)
    assert only_says(report, "what `spark.sql.ansi.enabled` of `spark.conf` changes")
    # A column as it is has no other meaning.
    assert wrong(case.audit(**selected(), spark=spark)) == {"different": 12}


def test_a_map_that_has_a_key_twice_is_not_compared(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.int32())
    maps = pa.array([[("a", 1), ("a", 2)]], kind)
    rows = pa.Table.from_pylist(ROWS[:1], SCHEMA).append_column("m", maps)
    case = Case(tmp_path)
    (tmp_path / "history").mkdir()
    pq.write_table(rows, tmp_path / "history" / "a.parquet")
    write_deltalake(tmp_path / "table", rows)
    assert only_says(case.audit(sources=[FILES]), "a map has a key twice")
