"""The audit: what is counted as missing, doubled, different or unexpected, and what is named."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.audit.readers.file_views import AuditFiles
from orchestration.comparison.report import AuditExample
from sources.config.source.file_source import FileSource
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from tests.hybrid_extensions.audit.audit_case import SCHEMA, Case, row, wrong
from tests.sources.storage.int96_files import EARLY, FAR, store_as_int96

ROWS = [row(number) for number in range(20)]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """History and late rows overlap by five."""
    case = Case(tmp_path)
    case.history(ROWS[:15])
    case.late(ROWS[10:])
    return case


def test_a_target_that_holds_every_row_once_is_proved(case: Case) -> None:
    case.target(ROWS[::-1])
    report = case.audit()
    assert report.ok
    assert (report.expected, report.found, wrong(report)) == (20, 20, {})
    assert report.input_rows.sources == {"history": 15, "late": 10}
    assert report.input_rows.distinct == 20
    assert report.notes == []


def test_a_missing_row_is_counted_and_named(case: Case) -> None:
    case.target([*ROWS[:12], *ROWS[13:]])
    report = case.audit()
    assert not report.ok
    assert (report.found, wrong(report)) == (19, {"missing": 1})
    assert report.examples["missing"] == [AuditExample({"id": 12, "origin": "JFK"}, None, 1, 0)]


def test_a_row_held_three_times_is_two_copies_too_many(case: Case) -> None:
    case.target([*ROWS, ROWS[3], ROWS[3]])
    report = case.audit()
    assert not report.ok
    assert wrong(report) == {"duplicated": 2}
    assert report.examples["duplicated"] == [AuditExample({"id": 3, "origin": "JFK"}, None, 1, 3)]


@pytest.mark.parametrize(
    ("computed", "held", "differs"),
    [
        (math.nan, math.nan, False),
        (math.inf, math.inf, False),
        (None, None, False),
        (math.inf, 1.0, True),
        (math.nan, 1.0, True),
        (1.0, None, True),
        (None, 0.0, True),
    ],
)
def test_doubles_that_are_no_numbers_equal_themselves_only(
    case: Case, computed: float | None, held: float | None, differs: bool
) -> None:
    case.history([*ROWS[1:15], row(0, delay=computed)])
    case.target([*ROWS[1:], row(0, delay=held)])
    assert wrong(case.audit()) == ({"different": 1} if differs else {})


def test_a_row_that_nothing_explains_is_unexpected_however_often_it_is_there(case: Case) -> None:
    case.target([*ROWS, row(99), row(99)])
    report = case.audit()
    assert not report.ok
    assert wrong(report) == {"unexpected": 2}
    assert report.examples["unexpected"] == [AuditExample({"id": 99, "origin": "JFK"}, None, 0, 2)]


def test_a_null_in_the_key_is_a_value_like_any_other(case: Case) -> None:
    nulls = [row(30, id=None), row(31, origin=None), row(32, id=None, origin=None)]
    case.history([*ROWS[:15], *nulls])
    case.target([*ROWS, *nulls])
    assert case.audit().ok
    case.target_again([*ROWS, nulls[0], {**nulls[1], "seats": 0}])
    report = case.audit()
    assert wrong(report) == {"missing": 1, "different": 1}
    assert report.examples["missing"][0].key == {"id": None, "origin": None}
    assert report.examples["different"] == [
        AuditExample({"id": 31, "origin": None}, "seats", 131, 0)
    ]


def test_examples_are_the_first_ten_by_key(case: Case) -> None:
    case.target([{**row, "delay": -1.0, "seats": None} for row in ROWS[:8]])
    report = case.audit()
    assert wrong(report) == {"missing": 12, "different": 8}
    assert [example.key["id"] for example in report.examples["missing"]] == list(range(8, 18))
    found = [(example.key["id"], example.column) for example in report.examples["different"]]
    assert found == [(number, name) for number in range(5) for name in ("delay", "seats")]


def test_rows_without_a_declared_key_count_as_often_as_they_come(case: Case) -> None:
    changed = [{**row, "seats": 0} for row in ROWS[10:15]]
    case.target([*ROWS, *changed])
    report = case.audit(key=[])
    assert (report.expected, report.input_rows.distinct) == (25, 25)
    assert wrong(report) == {"different": 5}
    case.target_again([*ROWS, *ROWS[10:15]])
    assert case.audit(key=[]).ok
    case.target_again(ROWS)
    assert wrong(case.audit(key=[])) == {"missing": 5}


def test_a_column_that_nothing_computes_is_not_proved(case: Case) -> None:
    schema = SCHEMA.remove(SCHEMA.get_field_index("seats")).append(pa.field("class", pa.string()))
    case.target([{**row, "class": "late"} for row in ROWS], schema)
    report = case.audit()
    assert (wrong(report), report.outcome) == ({}, "unknown")
    assert report.unchecked == [
        "Columns not compared, because no `audit.sql` computes them: class."
    ]


def test_sql_computes_the_target_from_input_and_from_single_sources(case: Case) -> None:
    schema = pa.schema([("origin", pa.string()), ("flights", pa.int64()), ("late", pa.int32())])
    query = (
        "-- Comments and a semicolon do no harm.\n"
        "SELECT origin, count(*) AS flights, (SELECT count(*) FROM late) AS late\n"
        "FROM input GROUP BY origin; -- the end\n"
    )
    sink = {"path": "table", "mode": "merge", "key": ["origin"]}
    case.target([{"origin": "JFK", "flights": 20, "late": 10}], schema)
    report = case.audit(sink=sink, audit=case.sql(query))
    assert report.ok
    case.target_again([{"origin": "JFK", "flights": 25, "late": 10}], schema)
    report = case.audit(sink=sink, audit=case.sql(query))
    assert report.examples["different"] == [AuditExample({"origin": "JFK"}, "flights", 20, 25)]


def test_a_target_that_does_not_exist_counts_as_empty(case: Case) -> None:
    report = case.audit()
    assert not report.ok
    assert (report.found, wrong(report)) == (0, {"missing": 20})
    assert report.notes == [
        f"There is no target table {case.folder / 'table'}: it counts as a table without rows."
    ]


def test_nothing_expected_proves_nothing_unless_there_was_no_input(case: Case) -> None:
    case.target([])
    report = case.audit(audit=case.sql("SELECT * FROM input WHERE false"))
    assert report.unchecked == ["No row is expected, although the input has 20."]
    assert not report.ok
    case.history([])
    case.late([])
    assert case.audit().ok


def test_timestamps_without_a_zone_are_utc(case: Case) -> None:
    naive = SCHEMA.set(0, pa.field("at", pa.timestamp("ms")))
    rows = [{**row, "at": row["at"].replace(tzinfo=None)} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows, naive), case.folder / "history/part-0.parquet")
    case.target(ROWS)
    query = "SELECT * FROM history WHERE typeof(\"at\") = 'TIMESTAMP WITH TIME ZONE'"
    assert case.audit(audit=case.sql(query)).ok


def test_a_doubled_row_is_not_also_compared(case: Case) -> None:
    case.target([*ROWS, {**ROWS[3], "seats": 0}])
    assert wrong(case.audit()) == {"duplicated": 1}


def test_a_file_name_with_brackets_is_taken_as_it_is(case: Case) -> None:
    case.history([row(50)], "part-[1].parquet")
    case.history([row(51)], "part-1.parquet")
    case.target([*ROWS, row(50), row(51)])
    assert case.audit().ok


def test_a_target_with_mapped_columns_is_read_by_their_names(case: Case) -> None:
    case.mapped_target(ROWS)
    assert case.audit().ok


def test_the_report_is_json(case: Case) -> None:
    case.history([*ROWS[:15], row(40, delay=math.nan)])
    case.target([*ROWS[1:], row(40, delay=math.inf)])
    text = json.dumps(case.audit(sink=_sink("at", "id")).to_dict(), allow_nan=False)
    report = json.loads(text)
    assert report["ok"] is False
    assert report["input_rows"] == {"sources": {"history": 16, "late": 10}, "distinct": 21}
    assert report["examples"]["missing"] == [
        {"key": {"at": "2013-01-01T00:00:00Z", "id": 0}, "column": None, "expected": 1, "found": 0}
    ]
    assert report["examples"]["different"][0]["expected"] == "nan"
    names = ("pipeline", "expected", "found", "missing", "duplicated", "different", "unexpected")
    assert {*names, "seconds", "notes"} < report.keys()


def _sink(*key: str) -> dict[str, object]:
    return {"path": "table", "mode": "append", "key": list(key)}


def test_the_same_files_are_found_as_by_the_plan(case: Case, tmp_path: Path) -> None:
    for name in ("a/day=1/x.parquet", "a/day=2/y.parquet", "a/_x/z.parquet", "a/.w", "b[1]/v"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "elsewhere" / "day=3").mkdir(parents=True)
    (tmp_path / "elsewhere" / "day=3" / "w.parquet").touch()
    (tmp_path / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    files = AuditFiles(case.loaded(), tmp_path)
    for pattern in ("a", "a/*", "a/**/*.parquet", "a/**", "**/*", "a/day=[12]/*", "*/*/x.*"):
        source = FileSource(type="files", name="history", path=pattern, format="parquet")
        planned = find_files("history", source.patterns, tmp_path, Stores(S3Settings()))
        assert files.find(source) == planned["path"].to_pylist(), pattern


@pytest.mark.parametrize("is_int96", [False, True])
def test_times_far_from_now_are_proved_however_the_target_stores_them(
    case: Case, *, is_int96: bool
) -> None:
    rows = [row(0, at=FAR), row(1, at=EARLY)]
    case.history(rows)
    case.late([])
    case.target(rows)
    if is_int96:
        store_as_int96(case.folder / "table")
    report = case.audit(event_time={"column": "at", "outside": "keep"})
    assert report.ok
    assert (report.expected, report.found) == (2, 2)
