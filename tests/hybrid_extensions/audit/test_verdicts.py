"""What an audit's counts amount to, and how a report says what differs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from orchestration.comparison import installed_audit
from orchestration.comparison.report import AuditExample, AuditReport, BadLine, InputRows

KINDS = ("missing", "duplicated", "different", "unexpected", "ambiguous")


def report(**changed: Any) -> AuditReport:
    """An audit of a table that is right, with some of it changed."""
    counts = dict.fromkeys(KINDS, 0)
    rest: dict[str, Any] = {
        "examples": {},
        "ledger": [],
        "bad_records": [],
        "unchecked": [],
        "notes": [],
    }
    rows = InputRows({"history": 5}, 5)
    values = {"pipeline": "p", "expected": 5, "found": 5, "input_rows": rows, "seconds": 0.0}
    return AuditReport(**{**values, **counts, **rest, **changed})


@pytest.mark.parametrize("kinds", [*combinations(KINDS, 2)], ids=str)
def test_no_kind_of_wrong_row_makes_up_for_another_one(kinds: tuple[str, str]) -> None:
    assert report().outcome == "passed"
    for kind in kinds:
        assert report(**{kind: 1}).outcome == "failed"
    assert report(**dict.fromkeys(kinds, 1)).outcome == "failed"


def test_what_could_not_be_checked_is_never_as_good_as_right() -> None:
    unknown = BadLine("live", "drop", 1, None, None, "unknown")
    assert report(unchecked=["The seam can't be recounted."]).outcome == "unknown"
    assert report(bad_records=[unknown]).outcome == "unknown"
    wrong = BadLine("live", "drop", 1, 2, None, "differs")
    assert report(bad_records=[unknown, wrong]).outcome == "failed"


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (AuditExample({"id": 5}, None, 1, 3), "id=5: 3 rows instead of 1"),
        (AuditExample({"id": 5}, "paid", 4, 3), "id=5: `paid` is 3 instead of 4"),
        (AuditExample({"id": 5}, "paid", 4, None), "id=5: `paid` is null instead of 4"),
        (AuditExample({"id": 5}, "tags", ["a"], ["b"]), 'id=5: `tags` is ["b"] instead of ["a"]'),
        # The key is ambiguous: its rows in the input have these values.
        (AuditExample({"id": 5}, "paid", [3, 4], None), "id=5: `paid` may be 3 or 4"),
    ],
)
def test_an_example_says_which_row_and_what_differs(example: AuditExample, told: str) -> None:
    assert str(example) == told


def test_where_nothing_audits_tables_no_query_misfits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def query_misfit(self, *_: object) -> str:
            return "column `seats` is not computed"

    monkeypatch.setattr(installed_audit, "installed_audit", lambda: None)
    assert installed_audit.query_misfit(None, "g2") is None  # type: ignore[arg-type]
    monkeypatch.setattr(installed_audit, "installed_audit", Refuses)
    misfit = installed_audit.query_misfit(None, "g2")  # type: ignore[arg-type]
    assert misfit == "column `seats` is not computed"
