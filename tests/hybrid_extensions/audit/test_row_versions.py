"""The audit of upserts: the last version by sequence counts; without a sequence nobody knows.

In each case the run errs by what a seam filter assumes: that a row of history is the row of a key.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hybrid_extensions.audit.computed.row_versions import (
    remove_truncated_rows,
    resolve_unchanged_values,
)
from orchestration.comparison.report import AuditExample
from sources.config.table.sink import Sink
from tests.extensions import needs
from tests.hybrid_extensions.audit.audit_case import COLUMNS, SCHEMA, Case, Row, row, wrong
from tests.sources.config.test_unchanged import MERGE as CHANGES_SINK
from tests.sources.config.test_unchanged import declared

ROWS = [row(number) for number in range(20)]
MERGE = {"path": "table", "mode": "merge", "key": ["id", "origin"], "sequence": "seats"}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """History, and later versions of its last rows; here `seats` counts the versions of a row."""
    case = Case(tmp_path)
    case.history([{**row, "seats": 1} for row in ROWS[:15]])
    case.late([{**row, "seats": 2, "delay": -1.0} for row in ROWS[10:]])
    return case


def versions(first: int, last: int, seats: int) -> list[Row]:
    delay = {} if seats == 1 else {"delay": -1.0}
    return [{**row, "seats": seats, **delay} for row in ROWS[first:last]]


def test_the_last_version_counts_wherever_it_lies(case: Case) -> None:
    case.target([*versions(0, 10, 1), *versions(10, 20, 2)])
    assert case.audit(sink=MERGE).ok
    # In the files, too: an old version may come late.
    case.history([{**row, "seats": 3} for row in ROWS[:15]])
    case.target_again([*versions(15, 20, 2), *({**row, "seats": 3} for row in ROWS[:15])])
    assert case.audit(sink=MERGE).ok


@pytest.mark.parametrize("query", [None, "SELECT * FROM input"], ids=["changes", "sql"])
def test_an_update_that_the_seam_filter_removed_is_seen(case: Case, query: str | None) -> None:
    case.target([*versions(0, 12, 1), *versions(12, 20, 2)])
    declared = {} if query is None else {"audit": case.sql(query)}
    report = case.audit(sink=MERGE, **declared)
    assert (report.outcome, wrong(report)) == ("failed", {"different": 2})
    assert report.examples["different"][1] == AuditExample(
        {"id": 10, "origin": "JFK"}, "seats", 2, 1
    )


@needs("expressions")
def test_a_delete_that_came_back_is_seen(case: Case) -> None:
    deleted = {**MERGE, "sequence": "delay", "deleted": "gone"}
    history = {
        "type": "files",
        "name": "history",
        "path": "history/*",
        "format": "parquet",
        "select": {**{name: name for name in COLUMNS}, "gone": "CAST(false AS boolean)"},
    }
    late = {
        "type": "files",
        "name": "late",
        "path": "*.json",
        "format": "json",
        "schema": COLUMNS,
        "select": {**{name: name for name in COLUMNS}, "gone": "seats < 0"},
    }
    case.history([{**row, "delay": 1.0} for row in ROWS[:15]])
    case.late([{**row, "delay": 2.0, "seats": -1} for row in ROWS[10:15]])
    right = [{**row, "delay": 1.0} for row in ROWS[:10]]
    case.target(right)
    changed: dict[str, Any] = {"sources": [history, late], "sink": deleted}
    assert case.audit(**changed).ok
    case.target_again([*right, {**ROWS[12], "delay": 1.0}])
    report = case.audit(**changed)
    assert (report.outcome, wrong(report)) == ("failed", {"unexpected": 1})
    assert report.examples["unexpected"][0].key == {"id": 12, "origin": "JFK"}


def test_every_version_is_expected_with_the_time_up_to_which_it_was_valid(case: Case) -> None:
    """History has the first version of rows 0 to 14, the other source the second of 10 to 19."""
    kept = {**MERGE, "history": "at"}
    case.late([{**row, "seats": 2, "at": row["at"] + timedelta(days=1)} for row in ROWS[10:]])
    schema = pa.schema(
        [
            *SCHEMA,
            *(pa.field(name, pa.timestamp("us", "UTC")) for name in ("valid_from", "valid_to")),
        ]
    )
    first = [
        {
            **row,
            "seats": 1,
            "valid_from": row["at"],
            "valid_to": row["at"] + timedelta(days=1) if row["id"] >= 10 else None,
        }
        for row in ROWS[:15]
    ]
    second = [
        {**row, "seats": 2, "at": later, "valid_from": later, "valid_to": None}
        for row in ROWS[10:]
        for later in [row["at"] + timedelta(days=1)]
    ]
    case.target([*first, *second], schema)
    report = case.audit(sink=kept)
    assert report.ok, report
    assert report.expected == 25
    # A version that is still valid after the next one began.
    case.target_again([*first[:12], {**first[12], "valid_to": None}, *first[13:], *second], schema)
    report = case.audit(sink=kept)
    assert wrong(report) == {"different": 1}
    assert report.examples["different"][0].key == {"id": 12, "origin": "JFK", "seats": 1}
    # And one that was overwritten.
    case.target_again([*first[:12], *first[13:], *second], schema)
    assert wrong(case.audit(sink=kept)) == {"missing": 1}


def test_a_value_that_a_change_left_as_it_was_is_that_of_the_change_before() -> None:
    sink = Sink.model_validate({**MERGE, "key": ["id"], "sequence": "seq", "unchanged": "kept"})
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE SCHEMA audit; CREATE TABLE audit.rows AS SELECT * FROM (VALUES "
            "(1, 'a', ['x'], NULL, NULL, 0), (1, NULL, ['y'], '3', MAP {'body': NULL}, 1), "
            "(1, 'b', ['n'], '2', NULL, 1), "
            "(1, NULL, NULL, '4', MAP {'body': NULL, 'tags': NULL}, 1), "
            "(2, NULL, NULL, '5', MAP {'body': NULL}, 1)) "
            "r(id, body, tags, seq, kept, _place)"
        )
        resolve_unchanged_values(connection, sink)
        found = connection.execute("SELECT * FROM audit.rows ORDER BY id, seq NULLS FIRST")
        assert found.fetchall() == [
            (1, "a", ["x"], None, 0),
            (1, "b", ["n"], "2", 1),
            (1, "b", ["y"], "3", 1),
            (1, "b", ["y"], "4", 1),
            (2, None, None, "5", 1),
        ]
        # Rows that are not of a change log have no such column.
        resolve_unchanged_values(connection, sink)


def test_rows_that_are_older_than_a_truncate_are_gone() -> None:
    pipeline = declared(CHANGES_SINK, on_truncate="follow")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE SCHEMA audit; CREATE TABLE audit.rows AS SELECT * FROM (VALUES "
            "(1, NULL, false), (2, '2', false), (NULL, '3', true), (2, '4', false), "
            "(3, '5', true)) r(id, seq, gone)"
        )
        remove_truncated_rows(connection, pipeline)
        found = connection.execute("SELECT * FROM audit.rows ORDER BY seq").fetchall()
        assert found == [(2, "4", False), (3, "5", True)]


@pytest.mark.parametrize("held", [14, 0], ids=["first source", "second source"])
def test_without_a_sequence_rows_that_differ_are_ambiguous(case: Case, held: int) -> None:
    case.history(ROWS[:15])
    case.late([ROWS[13], row(14, seats=0), *ROWS[15:]])
    case.target([*ROWS[:14], row(14, seats=114 if held else 0), *ROWS[15:]])
    report = case.audit()
    # Neither table is called right, neither wrong.
    assert (report.outcome, wrong(report), report.ambiguous) == ("failed", {}, 1)
    assert report.examples["ambiguous"] == [
        AuditExample({"id": 14, "origin": "JFK"}, "seats", [0, 114], None)
    ]
    assert "`sink.sequence`" in report.notes[0]
    # Other errors in the same table are told.
    case.target_again([*ROWS[:13], row(14, seats=1), *ROWS[15:]])
    assert wrong(case.audit()) == {"missing": 1}


def test_a_null_is_a_version_of_its_own(case: Case) -> None:
    case.history(ROWS[:15])
    case.late([row(14, delay=None), *ROWS[15:]])
    case.target(ROWS)
    assert case.audit().ambiguous == 1


def test_last_versions_with_one_sequence_are_ambiguous(case: Case) -> None:
    case.history([*versions(0, 15, 1), {**ROWS[14], "seats": 2, "delay": 7.0}])
    case.target([*versions(0, 10, 1), *versions(10, 20, 2)])
    report = case.audit(sink=MERGE)
    assert (report.outcome, report.ambiguous, wrong(report)) == ("failed", 1, {})
    # Ties among versions that are replaced do no harm.
    case.history([*versions(0, 15, 1), {**ROWS[14], "seats": 1, "delay": 7.0}])
    assert case.audit(sink=MERGE).ok


def test_a_sequence_that_the_transform_makes_orders_no_input(case: Case) -> None:
    sink = {**MERGE, "sequence": "made"}
    schema = SCHEMA.append(SCHEMA.field("seats").with_name("made"))
    case.target([{**row, "made": 0} for row in ROWS], schema)
    report = case.audit(sink=sink, audit=case.sql("SELECT *, seats AS made FROM input"))
    assert report.ambiguous == 5
