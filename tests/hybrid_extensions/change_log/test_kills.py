"""Writer and engine are killed at random instants: each change is in the log once, in order."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymysql.err import OperationalError

from tests.hybrid_extensions.change_log.log_case import (
    BinlogLog,
    LoggedDatabase,
    PostgresLog,
    changes_in,
    wait_for_change,
)

pytestmark = [pytest.mark.crash, pytest.mark.slow]
_KILLS = int(os.environ.get("HYBRID_KILLS", "6"))
_SEED = int(os.environ.get("HYBRID_SEED", "7"))
Version = tuple[int, int | None]
"""A row, and the version that was written; None for a delete."""


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LoggedDatabase]:
    statements = [
        "CREATE TABLE rows_ (id int PRIMARY KEY, version int)",
        "CREATE TABLE notes (id int PRIMARY KEY, note varchar(99))",
    ]
    # A transaction is cut into several segments.
    more = {"max_batch_size": "100", "max_queue_size": "400"}
    server = request.getfixturevalue(request.param)
    kind = PostgresLog if request.param == "postgres" else BinlogLog
    made = kind(tmp_path, server, statements, "rows_", "notes", **more)
    yield made
    made.end()


class _Changing(threading.Thread):
    """Changes rows in transactions that overlap; each version of a row is written once."""

    def __init__(self, shop: LoggedDatabase, number: int) -> None:
        super().__init__(daemon=True)
        self._shop, self._number = shop, number
        self._chance = random.Random(f"{_SEED} {number}")
        self.enough = threading.Event()
        self.committed: Counter[Version] = Counter()

    def run(self) -> None:
        connection = self._shop.connect()
        version = 0
        while not self.enough.is_set():
            version += 1
            try:
                written = self._change(connection.cursor(), version)
            except OperationalError:
                # Two that wait for each other's gaps.
                connection.rollback()
                continue
            time.sleep(self._chance.random() / 2)
            if self._chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
                self.committed.update(written)
        connection.close()

    def _change(self, cursor: Any, version: int) -> list[Version]:
        first = self._number * 1_000_000 + self._chance.randrange(2000)
        rows = range(first, first + self._chance.choice([1, 3, 30, 600]))
        where = f"WHERE id BETWEEN {rows[0]} AND {rows[-1]}"
        cursor.execute(f"SELECT id FROM rows_ {where}")
        written: list[Version] = [(row, None) for (row,) in cursor.fetchall()]
        cursor.execute(f"DELETE FROM rows_ {where}")
        # Many rows of one entry of the log.
        if isinstance(self._shop, PostgresLog):
            with cursor.copy("COPY rows_ FROM STDIN") as copy:
                for row in rows:
                    copy.write_row((row, version))
        else:
            values = ", ".join(f"({row}, {version})" for row in rows)
            cursor.execute(f"INSERT INTO rows_ VALUES {values}")
        cursor.execute(f"DELETE FROM notes WHERE id = {self._number}")
        cursor.execute(f"INSERT INTO notes VALUES ({self._number}, '{version}')")
        return [*written, *((row, version) for row in rows)]


def test_each_change_is_in_the_log_once(shop: LoggedDatabase) -> None:
    shop.log.start()
    changing = [_Changing(shop, number) for number in range(2)]
    chance = random.Random(_SEED)
    for each in changing:
        each.start()
    for _ in range(_KILLS):
        time.sleep(chance.uniform(0.5, 6))
        if chance.random() < 0.5:
            shop.log.kill_engine()
        else:
            shop.log.kill()
            shop.log.start()
    for each in changing:
        each.enough.set()
        each.join()
    shop.execute("INSERT INTO notes VALUES (-1, 'the end')")
    wait_for_change(shop.log, shop.topic("notes"), b"the end")
    found = [
        _seen(each.value)
        for each in changes_in(shop.log.folder)
        if each.topic == shop.topic("rows_")
    ]
    seen = Counter(each for each in found if each is not None)
    expected = sum((each.committed for each in changing), Counter[Version]())
    assert len(expected) > 2_000
    assert seen - expected == Counter(), "twice, or never written"
    assert expected - seen == Counter(), "lost"
    last = dict(filter(None, found))
    in_table = dict(shop.execute("SELECT id, version FROM rows_"))
    assert {row: version for row, version in last.items() if version is not None} == in_table


def _seen(value: bytes | None) -> Version | None:
    """Row and version of a change; None for a tombstone."""
    if value is None:
        return None
    change: dict[str, Any] = json.loads(value)
    change = change.get("payload", change)
    after = change["after"]
    return (change["before"]["id"], None) if after is None else (after["id"], after["version"])
