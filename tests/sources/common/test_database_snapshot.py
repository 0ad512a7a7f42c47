"""Which changes a snapshot of MariaDB or MySQL contains, by their positions in the binary log."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.database_snapshot import (
    BinlogSnapshot,
    file_position,
    gtid_position,
    snapshot_position,
)
from tests.properties import examples

COLUMNS = {"position": "position"}
MARIADB = BinlogSnapshot(file=3, offset=500, domain=7, sequence=40, taken_ms=0)
MYSQL = BinlogSnapshot(file=3, offset=500, domain=None, sequence=0, taken_ms=0)
FILES, OFFSETS, ROWS = st.integers(1, 10**9), st.integers(4, 2**63), st.integers(0, 2**31)
SEQUENCES = st.integers(1, 2**64 - 1)


def is_true(condition: str, position: str | None) -> bool:
    query = f"SELECT {condition} FROM (SELECT ?::VARCHAR AS position)"
    with duckdb.connect() as connection:
        row = connection.execute(query, [position]).fetchone()
    assert row is not None
    return bool(row[0])


def refusals(snapshot: BinlogSnapshot, position: str) -> list[str]:
    found = snapshot.refusals(COLUMNS)
    return [reason for reason, condition in found.items() if is_true(condition, position)]


@examples(100)
@given(SEQUENCES, OFFSETS, ROWS, SEQUENCES)
def test_mariadb_holds_transactions_up_to_its_own_whatever_their_place_in_a_file(
    sequence: int, event: int, row: int, last: int
) -> None:
    snapshot = MARIADB.model_copy(update={"sequence": last})
    position = gtid_position(7, sequence, event, row)
    assert is_true(snapshot.holds(COLUMNS), position) == (sequence <= last)
    assert not refusals(snapshot, position)


@examples(100)
@given(FILES, OFFSETS, ROWS, FILES, OFFSETS)
def test_mysql_holds_events_that_begin_before_its_end_of_the_log(
    file: int, offset: int, row: int, last_file: int, end: int
) -> None:
    snapshot = MYSQL.model_copy(update={"file": last_file, "offset": end})
    held = (file, offset) < (last_file, end)
    for more in (f":{row:020d}", f"{row:010d}"):
        assert is_true(snapshot.holds(COLUMNS), file_position(file, offset) + more) == held


@given(st.lists(st.tuples(SEQUENCES, OFFSETS, ROWS), min_size=2, max_size=2))
def test_positions_sort_as_transactions_then_events_then_rows(
    changes: list[tuple[int, int, int]],
) -> None:
    one, other = (gtid_position(7, *each) for each in changes)
    assert (one < other) == (changes[0] < changes[1])


@given(st.lists(st.tuples(FILES, OFFSETS), min_size=2, max_size=2))
def test_positions_of_one_server_sort_as_files_then_offsets(changes: list[tuple[int, int]]) -> None:
    one, other = (file_position(*each) for each in changes)
    assert (one < other) == (changes[0] < changes[1])


@given(FILES, OFFSETS, SEQUENCES)
def test_rows_of_a_connectors_snapshot_sort_before_all_changes(
    file: int, offset: int, sequence: int
) -> None:
    assert snapshot_position(file, offset) < gtid_position(0, sequence, 0, 0)


def test_a_change_without_a_position_is_not_held() -> None:
    assert not is_true(MARIADB.holds(COLUMNS), None)


@pytest.mark.parametrize(
    ("snapshot", "position", "held", "said"),
    [
        (MARIADB, snapshot_position(3, 500), True, ""),
        (MARIADB, snapshot_position(2, 9999), True, ""),
        (MARIADB, snapshot_position(3, 501), True, "taken a snapshot of its own"),
        (MARIADB, gtid_position(8, 41, 0, 0), False, "a GTID of another domain than 7"),
        (MARIADB, gtid_position(6, 41, 0, 0), True, "a GTID of another domain than 7"),
        (MYSQL, "0" * 42, True, "taken a snapshot of its own"),
    ],
)
def test_what_can_not_be_ordered_is_refused(
    snapshot: BinlogSnapshot, position: str, held: bool, said: str
) -> None:
    assert is_true(snapshot.holds(COLUMNS), position) == held
    found = refusals(snapshot, position)
    assert [said in each for each in found] == ([True] if said else [])
