"""What a repair says that it has done, or would do."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from hybrid_extensions.repair.differences import Differences
from hybrid_extensions.repair.result import RepairResult
from hybrid_extensions.repair.result_text import shown

NOTHING = Differences(0, 0, 0, 0, 0, {}, [], [])
FOUND = Differences(1, 2000, 3, 0, 0, {"amount": 2000}, ['missing {"id":[1]}'], [])


def result(found: Differences, **more: Any) -> RepairResult:
    given: dict[str, Any] = {"files": 1, "bytes": 2_000_000, "is_applied": False, **more}
    return RepairResult(table="public.orders", generation="g1", found=found, **given)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (result(NOTHING), "No row of `public.orders` has to be repaired."),
        (
            result(FOUND),
            "`public.orders`: 1 row is missing, 2,000 different, 3 extra. 1 file (2.0 MB) would be "
            "rewritten.",
        ),
        (
            result(FOUND, is_applied=True, version=7, changed=1),
            "`public.orders`: 1 row is missing, 2,000 different, 3 extra. 1 file (2.0 MB) was "
            "rewritten. Version 7 of the target has the repaired rows; `hybrid compare P` "
            "proves it. 1 other key was changed meanwhile and stays as it is. Repair again to "
            "compare it, too.",
        ),
    ],
)
def test_it_is_said_in_sentences(made: RepairResult, told: str) -> None:
    assert made.text == told
    assert made.ok


def test_positions_that_no_change_has_are_a_bad_answer_with_a_way_out() -> None:
    made = result(NOTHING._replace(impossible=2, impossible_keys=['{"id":5}']))
    assert not made.ok
    assert "2 keys have a position behind the end of the database's log" in made.text
    assert "`hybrid rerun P`" in made.text


def test_a_dry_run_shows_columns_and_keys_and_how_to_write_them() -> None:
    console = Console(width=200, record=True, file=None)
    with console.capture() as captured:
        console.print(shown(result(FOUND)))
    text = captured.get()
    assert "amount" in text
    assert 'missing {"id":[1]}' in text
    assert "`hybrid repair P --apply` does it" in text
