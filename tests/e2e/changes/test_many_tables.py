"""All tables of one file, in one driver: each equals its table in the database, whatever one does.

The commands are those that people type; the comparison is the database's own dump against DuckDB.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from examples.shop import TABLES, Customers
from tests.e2e.changes.cdc_case import CdcCase
from tests.e2e.changes.tables_file import PATIENCE_S, TablesFile
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.crash,
    pytest.mark.timeout(1800),
]
ALL = ["public.lines", "public.orders", "public.stock"]


@pytest.fixture
def shop(case: CdcCase) -> Iterator[TablesFile]:
    made = TablesFile(case.folder, case.name, {"dsn": case.dsn, "slot": case.name}, case.servers)
    yield made
    made.end()


@contextmanager
def customers(case: CdcCase, seed: int) -> Iterator[Customers]:
    """The database changes in the meantime, and is at rest afterwards."""
    made = Customers(case.dsn, seed, rows=10, enough=lambda _: False, pause_s=0.5)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_a_table_that_stops_or_a_killed_driver_leaves_every_table_equal_in_the_end(
    case: CdcCase, shop: TablesFile
) -> None:
    case.capture(TABLES, snapshot_mode="no_data")
    with customers(case, 1) as busy:
        status, text = shop.run("run", str(shop.path))
        assert status == 0, text
        before = busy.changes
        wait_for(lambda: busy.changes > before + 300, "changes", PATIENCE_S)
    assert len({shop.pid(table) for table in ALL} - {None}) == 1
    shop.wait_until_equal(*ALL)

    # One of them gets a column that its declaration does not have: it stops, and no other does.
    with customers(case, 2) as busy:
        case.execute("ALTER TABLE lines ADD discount int DEFAULT 3")
        wait_for(lambda: shop.pid("public.lines") is None, "the stop of one", PATIENCE_S)
        before = busy.changes
        wait_for(lambda: busy.changes > before + 300, "changes", PATIENCE_S)
    shop.wait_until_equal("public.orders", "public.stock")
    status, text = shop.run("status", str(shop.path))
    assert status == 1
    [line] = [each for each in text.splitlines() if each.startswith("public.lines: failed")]
    assert "added_columns: {discount: {type: int, default: 3}}" in line

    def health() -> dict[str, str]:
        _, text = shop.run("status", str(shop.path), "--json")
        answers = json.loads(text)["tables"]
        return {name: answer["live"]["health"] for name, answer in answers.items()}

    others = {"public.orders": "healthy", "public.stock": "healthy"}
    wait_for(lambda: health() == {"public.lines": "failed", **others}, "the others", 60)

    # What the message says, in the file of all tables; meanwhile the driver is killed.
    added = {"changes": {"added_columns": {"discount": {"type": "int", "default": 3}}}}
    shop.document["tables"] = {"include": ["public.*"], "overrides": {"public.lines": added}}
    shop.write()
    pid = shop.pid("public.orders")
    assert pid is not None
    with customers(case, 3):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: shop.pid("public.stock") is None, "the end of the driver", PATIENCE_S)
        status, text = shop.run("resume", str(shop.path))
        assert status == 0, text
    assert len({shop.pid(table) for table in ALL} - {None, pid}) == 1
    shop.wait_until_equal(*ALL)
    status, text = shop.run("compare", str(shop.path))
    assert status == 0, text
