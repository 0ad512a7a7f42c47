"""The audit against a count in plain Python, for random input and random damage."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hybrid_extensions.audit.audit_case import Case, Row, row, wrong
from tests.properties import examples

KEYS = st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from([None, "EWR", "JFK"]))
DELAYS = st.one_of(st.none(), st.floats(-1e6, 1e6))
PLACES = st.sets(st.sampled_from(["part-0", "part-1", "late"]), min_size=1)
# Applied to a row on its way to the target.
DAMAGE = st.sampled_from(
    ["none", "none", "lost", "doubled", "tripled", "changed copy", "delay", "seats", "tiny"]
)


def make(key: tuple[Any, Any], delay: float | None) -> Row:
    return row(0, id=key[0], origin=key[1], delay=delay)


def damaged(good: Row, damage: str) -> list[Row]:
    if damage in ("lost", "doubled", "tripled"):
        return [good] * {"lost": 0, "doubled": 2, "tripled": 3}[damage]
    if damage == "changed copy":
        return [good, {**good, "seats": 0}]
    delay = good["delay"]
    changes: dict[str, Row] = {
        "delay": {"delay": 1.0 if delay is None else delay * 1.001 + 1},
        "tiny": {"delay": None if delay is None else delay * (1 + 1e-11)},
        "seats": {"seats": None},
    }
    return [{**good, **changes.get(damage, {})}]


def count(expected: dict[Any, Row], target: list[Row]) -> dict[str, int]:
    """The audit's numbers, from the rows as they are."""
    held = Counter((row["id"], row["origin"]) for row in target)
    counts = Counter({"missing": sum(key not in held for key in expected)})
    for key, copies in held.items():
        counts["duplicated" if key in expected else "unexpected"] += copies - (key in expected)
    for found in target:
        key = (found["id"], found["origin"])
        if key in expected and held[key] == 1:
            good = expected[key]
            delays = (good["delay"], found["delay"])
            counts["different"] += delays[0] != delays[1] or good["seats"] != found["seats"]
    return {kind: number for kind, number in counts.items() if number}


@pytest.mark.slow
@examples(40)
@given(
    rows=st.dictionaries(KEYS, st.tuples(DELAYS, PLACES, DAMAGE), max_size=15),
    strangers=st.lists(KEYS, max_size=3),
)
def test_the_counts_are_those_of_plain_python(
    rows: dict[Any, tuple[float | None, set[str], str]], strangers: list[Any]
) -> None:
    expected = {key: make(key, delay) for key, (delay, _, _) in rows.items()}
    target = [held for key, item in rows.items() for held in damaged(expected[key], item[2])]
    target += [make(key, 0.5) for key in strangers if key not in expected]
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder))
        placed = {
            place: [expected[key] for key, item in rows.items() if place in item[1]]
            for place in ("part-0", "part-1", "late")
        }
        case.history(placed["part-0"], "part-0.parquet")
        case.history(placed["part-1"], "part-1.parquet")
        case.late(placed["late"])
        case.target(target)
        report = case.audit()
    assert wrong(report) == count(expected, target)
    assert (report.expected, report.found) == (len(expected), len(target))
    assert report.input_rows.distinct == len(expected)
    assert report.ok == (wrong(report) == {})
