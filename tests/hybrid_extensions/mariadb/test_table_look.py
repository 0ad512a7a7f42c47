"""A look at a table of a real MariaDB or MySQL, as far as the server tells it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hybrid_extensions.cdc.databases.altered_table import Names, TableWatch
from hybrid_extensions.mariadb import long_files
from hybrid_extensions.mariadb.table_look import look_at_table
from sources.common.database_snapshot import BinlogSnapshot
from sources.decoding.changes.declared_table import DeclaredTable
from tests.hybrid_extensions.mariadb.table_case import COLUMNS, Case

pytestmark = pytest.mark.slow


@pytest.fixture(params=["mariadb", "mysql"])
def case(request: pytest.FixtureRequest) -> Case:
    made = Case(request.getfixturevalue(request.param))
    made.execute("CREATE TABLE t (id bigint PRIMARY KEY, v varchar(9))")
    return made


def look(case: Case, before: TableWatch, file: int = 1) -> TableWatch:
    table = case.table()
    names = Names(COLUMNS, DeclaredTable(table=table.name))
    snapshot = BinlogSnapshot(file=file, offset=4, domain=0, sequence=1, taken_ms=0)
    # Of no topic of statements.
    topic: Any = SimpleNamespace(topic="changes")
    return look_at_table(table, topic, names, before, snapshot)


def test_a_file_of_the_log_in_which_positions_begin_again_stops_the_table(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(case, TableWatch(looked_ms=1))
    assert (before.altered, before.long_files) == (None, [])
    assert look(case, before).altered is None
    # As if a transaction had written so much.
    monkeypatch.setattr(long_files, "LONGEST", 100)
    found = look(case, before).altered
    assert found is not None
    assert "has the same positions twice" in found.error().message
    assert "`hybrid compare P`" in found.way
    # Once a comparison has found no row that differs, it is known.
    anew = look(case, TableWatch(looked_ms=2))
    assert anew.altered is None
    assert anew.long_files
    assert look(case, anew).altered is None
    # A later snapshot has what was written before.
    assert look(case, before, file=10**6).altered is None
