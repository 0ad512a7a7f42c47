"""The tolerance: declared, and only for columns that are computed in floating point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.errors import InputError
from tests.hybrid_extensions.audit.audit_case import Case, row, wrong

# 1 e-9 of these is more than a second, and more than 993.
EPOCH_S = 1_700_000_000.0
LARGE = 1_000_000_000_000
SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("mean", pa.float64()),
        ("epoch_s", pa.float64()),
        ("large", pa.int64()),
    ]
)
QUERY = (
    f"SELECT origin, avg(delay) AS mean, {EPOCH_S} + min(seats) AS epoch_s, "
    f"{LARGE} + count(*) AS large FROM input GROUP BY origin"
)
MERGE = {"path": "table", "mode": "merge", "key": ["origin"]}
RIGHT = {"origin": "JFK", "mean": 19 / 6, "epoch_s": EPOCH_S + 100, "large": LARGE + 20}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    case = Case(tmp_path)
    case.history([row(number) for number in range(20)])
    case.late([])
    return case


def check(
    case: Case, tolerance: dict[str, float] | None = None, **changed: Any
) -> tuple[str, dict[str, int], list[str]]:
    if (case.folder / "table").exists():
        case.target_again([{**RIGHT, **changed}], SCHEMA)
    else:
        case.target([{**RIGHT, **changed}], SCHEMA)
    declared = {**case.sql(QUERY), "tolerance": tolerance or {}}
    report = case.audit(sink=MERGE, audit=declared)
    return report.outcome, wrong(report), report.notes


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch_s": EPOCH_S + 101},
        {"large": LARGE + 20 + 993},
        {"large": LARGE + 21},
        {"mean": 19 / 6 * (1 + 1e-8)},
    ],
)
def test_a_wrong_value_is_seen_however_large_the_number(
    case: Case, changed: dict[str, Any]
) -> None:
    outcome, counts, _ = check(case, {"mean": 1e-9}, **changed)
    assert (outcome, counts) == ("failed", {"different": 1})


def test_rounding_passes_only_where_it_is_declared(case: Case) -> None:
    rounded = 19 / 6 * (1 + 1e-12)
    outcome, counts, notes = check(case, mean=rounded)
    assert (outcome, counts) == ("failed", {"different": 1})
    assert len(notes) == 1
    assert notes[0].startswith("Column `mean`: 1 row differs by at most 1e-09 of the value")
    assert "tolerance: {mean: 1e-09}" in notes[0]
    assert check(case, {"mean": 1e-9}, mean=rounded) == ("passed", {}, [])


def test_a_column_that_is_passed_through_has_to_be_equal(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.history([row(number) for number in range(20)])
    case.late([])
    rows = [row(number) for number in range(20)]
    case.target([*rows[:19], row(19, delay=19 / 3 * (1 + 1e-12))])
    report = case.audit()
    assert (report.outcome, wrong(report)) == ("failed", {"different": 1})


@pytest.mark.parametrize(
    ("name", "what"),
    [("large", "BIGINT"), ("origin", "part of `sink.key`"), ("other", "no column of the target")],
)
def test_a_tolerance_for_anything_else_is_refused(case: Case, name: str, what: str) -> None:
    with pytest.raises(InputError, match=f"names `{name}`, which is {what}") as caught:
        check(case, {name: 1e-9})
    assert caught.value.fields == {"field": "audit.tolerance", "column": name}
