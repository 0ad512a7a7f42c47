"""Which changes are newer than a repair, and which position none can have."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pytest

from hybrid_extensions.repair.positions import is_impossible, is_newer, repair_version
from sources.common.database_snapshot import (
    BinlogSnapshot,
    DatabaseSnapshot,
    PostgresSnapshot,
    file_position,
    gtid_position,
)
from tests.hybrid_extensions.repair.repair_case import LOG_END, VERSION, at

IN_POSTGRES = PostgresSnapshot(lsn=260, xmin=1, xmax=1, in_progress=[], taken_ms=0)
IN_MARIADB = BinlogSnapshot(file=3, offset=70, domain=0, sequence=9, taken_ms=0)
IN_MYSQL = BinlogSnapshot(file=3, offset=70, domain=None, sequence=0, taken_ms=0)


def version(snapshot: DatabaseSnapshot, positions: Sequence[str | None]) -> str:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE known (p VARCHAR)")
        for each in positions:
            connection.execute("INSERT INTO known VALUES (?)", [each])
        return repair_version(connection, snapshot, 200, "SELECT p FROM known")


def holds(condition: str, position: str | None) -> bool:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (p VARCHAR)")
        connection.execute("INSERT INTO t VALUES (?)", [position])
        [(found,)] = connection.execute(f"SELECT {condition} FROM t").fetchall()
        return bool(found)


def test_in_postgres_it_is_behind_the_last_commit_that_the_table_knows_of() -> None:
    # The last one was in flight at 200: it is of a transaction that was committed later.
    assert version(IN_POSTGRES, [None, at(40, 60), at(100, 120), at(210, 150)]) == VERSION
    assert version(IN_POSTGRES, [None, at(0, 0)]) == f"{at(0, 199)}:"
    assert version(IN_POSTGRES, []) == f"{at(0, 199)}:"


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (None, False),
        (at(0, 0), False),
        (at(40, 60), False),
        (at(100, 199), False),
        # Of an earlier repair, while nothing was written in between.
        (VERSION, False),
        # Written later, before another commit; after one; in flight at the time.
        (at(100, 200), True),
        (at(230, 240), True),
        (at(210, 150), True),
    ],
)
def test_in_postgres_what_was_written_or_committed_later_is_newer(
    position: str | None, expected: bool
) -> None:
    assert holds(is_newer("p", VERSION), position) is expected


@pytest.mark.parametrize("known", [100, 40, 0])
def test_no_later_change_loses_however_little_the_table_knows_of_commits(known: int) -> None:
    """The log's last commit before 200 ended at 100; the table may not have its rows."""
    found = version(IN_POSTGRES, [at(known, 120)])
    assert all(at(before, own) > found for before, own in ((100, 200), (100, 220), (230, 240)))
    assert at(known, 120) < found


def test_in_a_binary_log_it_is_right_behind_the_snapshot() -> None:
    assert version(IN_MARIADB, [gtid_position(0, 50, 1, 1)]) == gtid_position(0, 10, 0, 0)
    assert version(IN_MYSQL, []) == file_position(3, 70)
    for snapshot, last, following in (
        (IN_MARIADB, gtid_position(0, 9, 90, 3), gtid_position(0, 10, 4, 0)),
        (IN_MYSQL, f"{file_position(3, 66)}:{'9' * 20}", f"{file_position(3, 70)}:{'0' * 20}"),
    ):
        found = version(snapshot, [])
        assert (holds(is_newer("p", found), last), holds(is_newer("p", found), following)) == (
            False,
            True,
        )


@pytest.mark.parametrize(
    ("log_end", "possible", "impossible"),
    [
        (LOG_END, at(890, 899), at(890, 900)),
        (LOG_END, at(210, 150), at(900, 150)),
        (LOG_END, None, "f" * 32),
        (IN_MARIADB, gtid_position(0, 9, 90, 3), gtid_position(0, 10, 4, 0)),
        (IN_MYSQL, f"{file_position(3, 66)}:{'9' * 20}", f"{file_position(3, 70)}:{'0' * 20}"),
    ],
)
def test_no_change_has_a_position_behind_the_end_of_the_log(
    log_end: DatabaseSnapshot, possible: str | None, impossible: str
) -> None:
    condition = is_impossible("p", log_end)
    assert (holds(condition, possible), holds(condition, impossible)) == (False, True)
