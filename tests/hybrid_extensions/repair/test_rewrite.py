"""Which rows a repair writes, and which it leaves to newer changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hybrid_extensions.repair import rewrite
from sources.errors import InputError
from tests.hybrid_extensions.repair.repair_case import VERSION, RepairCase, at

OLD, NEW, MADE_UP = at(40, 60), at(210, 220), "f" * 32


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        yield made


def test_rows_that_differ_become_those_of_the_database(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "a", None, 7), (2, "damaged", OLD, 8), (3, "extra", OLD, 9))
    case.write((5, "e", OLD, 7), (5, "e", OLD, 7), (6, "extra", None, 7))
    case.write((7, "g", OLD, 7))
    found = case.compare(connection, [(1, "a"), (2, "b"), (4, "d"), (5, "e"), (7, "g"), (8, None)])
    assert (found.missing, found.different, found.extra) == (2, 2, 2)
    assert (found.newer, found.impossible) == (0, 0)
    # A row that is there twice differs in no column.
    assert found.columns == {"v": 1}
    assert found.keys[:2] == ['different {"id":2}', 'different {"id":5}']
    done = case.repair(connection)
    assert (done.version, done.changed) == (3, 0)
    assert case.rows() == [
        (1, "a", None, 7),
        (2, "b", VERSION, 300),
        (4, "d", VERSION, 300),
        (5, "e", VERSION, 300),
        (7, "g", OLD, 7),
        (8, None, VERSION, 300),
    ]
    # An older change does not bring them back.
    assert case.deletes() == [(3, VERSION), (6, VERSION)]


def test_what_is_newer_stays_and_so_does_what_no_change_can_have_written(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "newer", NEW, 7), (2, "newer", NEW, 7), (3, "made up", MADE_UP, 7))
    # Deleted before and after: a row that is missing, and one that is newer.
    case.delete(4, OLD)
    case.delete(5, NEW)
    found = case.compare(connection, [(1, "a"), (3, "c"), (4, "d"), (5, "e")])
    assert (found.missing, found.different, found.extra) == (1, 0, 0)
    assert (found.newer, found.impossible, found.impossible_keys) == (3, 1, ['{"id":3}'])
    case.repair(connection)
    assert case.rows() == [
        (1, "newer", NEW, 7),
        (2, "newer", NEW, 7),
        (3, "made up", MADE_UP, 7),
        (4, "d", VERSION, 300),
    ]


def test_what_became_newer_after_the_comparison_wins(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "damaged", OLD, 7))
    case.write((2, "damaged", OLD, 7), (3, "extra", OLD, 7))
    found = case.compare(connection, [(1, "a"), (2, "b"), (4, "d"), (5, "e")])
    assert found.to_repair == 5
    # Merged meanwhile: an update of 1, an insert of 4, and deletes of 3 and 5.
    case.write((4, "newer", NEW, 7))
    case.delete(3, NEW)
    case.delete(5, NEW)
    done = case.repair(connection)
    assert done.changed == 3
    assert case.rows() == [
        (1, "a", VERSION, 300),
        (2, "b", VERSION, 300),
        (3, "extra", OLD, 7),
        (4, "newer", NEW, 7),
    ]
    assert (3, VERSION) not in case.deletes()


def test_a_target_that_marks_deletes_keeps_the_values_of_its_rows(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path, deletes="soft")
    case.write((1, "extra", OLD, 7, False), (2, "b", OLD, 7, True), (3, "gone", OLD, 7, True))
    found = case.compare(connection, [(2, "b")])
    assert (found.missing, found.different, found.extra) == (0, 1, 1)
    case.repair(connection)
    assert case.rows() == [
        (1, "extra", VERSION, 300, True),
        (2, "b", VERSION, 300, False),
        (3, "gone", OLD, 7, True),
    ]


def test_only_rows_that_are_asked_for_are_compared(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "damaged", OLD, 7), (2, "damaged", OLD, 7), (3, "extra", OLD, 7))
    # By its value in the target, and by that in the database.
    found = case.compare(connection, [(1, "a"), (2, "b"), (4, "d")], "v IN ('extra', 'a')")
    assert found.keys == ['different {"id":1}', 'extra {"id":3}']


def test_a_condition_that_is_none_is_refused(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "a", OLD, 7))
    with pytest.raises(InputError, match=r"`--where w = 1` can't be evaluated"):
        case.compare(connection, [(1, "a")], "w = 1")


def test_a_table_without_differences_gets_no_commit(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection
) -> None:
    case = RepairCase(tmp_path)
    case.write((1, "a", OLD, 7))
    assert case.compare(connection, [(1, "a")]).to_repair == 0
    assert case.repair(connection).version is None


class Killed(BaseException):
    """What a process does not survive."""


@pytest.mark.parametrize("step", ["append_deletes", "link_files", "commit_once"])
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_wherever_it_breaks_off_it_is_done_once_or_not_at_all_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_done: bool
) -> None:
    case = RepairCase(tmp_path)
    damaged = [(1, "damaged", OLD, 7), (2, "b", OLD, 7), (3, "extra", OLD, 7)]
    case.write(*damaged)
    database = [(1, "a"), (2, "b"), (4, "d")]
    whole = [(1, "a", VERSION, 300), (2, "b", OLD, 7), (4, "d", VERSION, 300)]
    does = getattr(rewrite, step)

    def breaks_off(*given: Any) -> None:
        if is_done:
            does(*given)
        raise Killed

    with duckdb.connect() as first, monkeypatch.context() as patch:
        patch.setattr(rewrite, step, breaks_off)
        case.compare(first, database)
        with pytest.raises(Killed):
            case.repair(first)
    assert case.rows() == (whole if (step, is_done) == ("commit_once", True) else damaged)
    with duckdb.connect() as second:
        case.compare(second, database)
        case.repair(second, "r2")
    assert case.rows() == whole
    assert {*case.deletes()} == {(3, VERSION)}
