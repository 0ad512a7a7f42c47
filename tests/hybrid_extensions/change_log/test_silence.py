"""A database goes silent: the engine begins again by itself, and each change is in the log once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybrid_extensions.change_log import engine
from hybrid_extensions.change_log.declare import load_log
from hybrid_extensions.change_log.run import run
from tests.hybrid_extensions.change_log.log_case import (
    BinlogLog,
    LoggedDatabase,
    PostgresLog,
    changes_in,
    wait_for_change,
)
from tests.services.network import Network
from tests.services.processes import wait_for

pytestmark = pytest.mark.slow
_CREATE = ["CREATE TABLE rows_ (id int PRIMARY KEY, note varchar(99))"]


class _Running:
    """A change log that is written in a thread of this process."""

    def __init__(self, file: Path) -> None:
        self.said: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=run, args=(load_log(file), self.said.append, self._stop)
        )
        self._thread.start()

    def wait_for(self, part: str) -> None:
        """Wait until it has said something that contains this."""
        wait_for(lambda: any(part in each for each in self.said), lambda: str(self.said), 180)

    def end(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def silenced(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LoggedDatabase, Network, _Running]]:
    # In the place of a minute.
    monkeypatch.setattr(engine, "SILENCE_S", 5.0)
    server = request.getfixturevalue(request.param)
    kind = PostgresLog if request.param == "postgres" else BinlogLog
    with Network(server.port) as network:
        shop = kind(tmp_path, server, _CREATE, "rows_", database_port=str(network.port))
        running = _Running(shop.log.path)
        try:
            running.wait_for("is served")
            yield shop, network, running
        finally:
            network.heal()
            running.end()
            shop.end()


def test_it_begins_again_once_the_database_speaks_and_nothing_is_lost_or_doubled(
    silenced: tuple[LoggedDatabase, Network, _Running],
) -> None:
    shop, network, running = silenced
    written = 0

    def write(transactions: int) -> bytes:
        nonlocal written
        for _ in range(transactions):
            rows = ", ".join(f"({written + n}, 'row {written + n}')" for n in range(1, 101))
            shop.execute(f"INSERT INTO rows_ VALUES {rows}")
            written += 100
        return f"row {written}".encode()

    wait_for_change(shop.log, shop.topic("rows_"), write(1))
    network.silence()
    # Part of it may be on the way already.
    write(3)
    running.wait_for("has sent no change and no heartbeat for 5 s, as its database is silent")
    write(3)
    network.heal()
    wait_for_change(shop.log, shop.topic("rows_"), write(1))
    ids = [
        json.loads(each.value or b"{}")["payload"]["after"]["id"]
        for each in changes_in(shop.log.folder)
        if each.topic == shop.topic("rows_")
    ]
    assert ids == list(range(1, written + 1))
