"""One thing is not called by the word for several."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sources.common.counting import counted, counted_as

ROOT = Path(__file__).parents[3]
_BY_HAND = re.compile(
    r"\{[^{}]*:,\} (?:[a-z-]+ )?"
    r"(?:rows|files|splits|records|chunks|partitions|offsets|bytes|keys|columns|tables|batches)\b"
)


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0 splits"), (1, "1 split"), (2, "2 splits"), (10_000, "10,000 splits")],
)
def test_a_number_stands_with_the_right_form(number: int, told: str) -> None:
    assert counted(number, "split") == told


def test_words_that_change_with_the_number_are_given() -> None:
    assert counted(1, "row is", "rows are") == "1 row is"
    assert counted(3, "row is", "rows are") == "3 rows are"
    assert counted_as(1, "waits", "wait") == "waits"


def test_nothing_that_people_read_counts_by_hand() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in ("orchestration", "spark_jobs", "sources", "hybrid_extensions")
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in path.read_text().splitlines()
        if _BY_HAND.search(line)
    ]
    assert found == [], "use `counted`, which says `1 row`"
