"""When a repair takes back the doubt that unreadable changes of a mirror have left."""

from __future__ import annotations

from pathlib import Path

import pytest

from hybrid_extensions.repair.comparison import Limits
from hybrid_extensions.repair.differences import Differences
from hybrid_extensions.repair.lifted_doubt import doubt_before, lift_doubt
from spark_jobs.run_state.wrong_rows import Change, keep_wrong_rows, read_wrong_rows
from tests.hybrid_extensions.repair.repair_case import RepairCase

ALL_RIGHT = Differences(1, 1, 1, 5, 0, {}, [], [])


class Mirror(RepairCase):
    """A captured table whose topic has changes that could not be read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, on_bad_record="drop")
        self.unreadable(1)

    def unreadable(self, batch: int) -> None:
        change = Change(0, batch, b"%d" % batch, is_wrong=True)
        keep_wrong_rows(self.table.context.generation, "changes", batch, [change])

    @property
    def wrong(self) -> set[bytes]:
        return read_wrong_rows(self.table.context.generation, "changes").record_keys


def test_a_repair_of_all_rows_lifts_the_doubt_that_was_there_before_it(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    doubt = doubt_before(mirror.table, Limits())
    mirror.unreadable(2)
    lift_doubt(mirror.table, doubt, ALL_RIGHT, 0)
    assert mirror.wrong == {b"2"}


@pytest.mark.parametrize(
    "limits", [Limits(where="id > 1"), Limits(keys="keys.csv"), Limits("", "")]
)
def test_a_repair_of_some_rows_leaves_the_doubt(tmp_path: Path, limits: Limits) -> None:
    mirror = Mirror(tmp_path)
    lift_doubt(mirror.table, doubt_before(mirror.table, limits), ALL_RIGHT, 0)
    assert mirror.wrong == {b"1"}


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (ALL_RIGHT._replace(impossible=1), 0),
        (ALL_RIGHT._replace(partial=1), 0),
        (ALL_RIGHT, 1),
    ],
    ids=["impossible position", "older long value", "changed meanwhile"],
)
def test_a_row_that_was_not_put_right_leaves_the_doubt(
    tmp_path: Path, found: Differences, changed: int
) -> None:
    mirror = Mirror(tmp_path)
    lift_doubt(mirror.table, doubt_before(mirror.table, Limits()), found, changed)
    assert mirror.wrong == {b"1"}
