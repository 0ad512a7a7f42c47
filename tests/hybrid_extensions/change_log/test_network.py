"""A database is out of reach, or what reads its log is killed: told, then nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError
from sources.planning.context import PipelineContext
from tests.e2e.case import TRANSFORMS, start_live, wrong
from tests.e2e.changes.captured import captured
from tests.e2e.changes.cdc_case import INCLUDE, is_equal, take_snapshot
from tests.e2e.supervision.faults import Look, late, watch
from tests.hybrid_extensions.change_log.log_case import LogProcess, PostgresLog
from tests.services.network import Network
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.crash]
COMMAND = "python -m pytest tests/hybrid_extensions/change_log/test_network.py"
COLUMNS = {"id": "bigint", "state": "int", "note": "string"}
ROWS = 2000
FAULT_S = 60.0
BACK_S = 900.0


class Shop:
    """A database that only the test itself reaches without the network, and its pipeline."""

    def __init__(self, folder: Path, postgres: LocalPostgres, network: Network) -> None:
        statements = [
            "CREATE TABLE orders (id bigint PRIMARY KEY, state int, note varchar(99))",
            f"INSERT INTO orders SELECT n, 0, 'note ' || n FROM generate_series(1, {ROWS}) n",
        ]
        port = str(network.port)
        self.database = PostgresLog(folder, postgres, statements, "orders", database_port=port)
        dsn = {"dsn": f"{self.database.dsn} port={port}", "slot": self.database.name}
        (folder / "transforms.py").write_text(TRANSFORMS)
        topic = {
            "topic": self.database.topic("orders"),
            "bootstrap_servers": self.log.servers,
            "table": f"{self.database.schema}.orders",
            "schema": COLUMNS,
            "include": INCLUDE,
        }
        self.loaded: LoadedPipeline = captured(folder, "orders", dsn, topic, ["id"], lambda _: None)
        self._changes = 0

    @property
    def log(self) -> LogProcess:
        """The change log of the database."""
        return self.database.log

    def change(self) -> None:
        """Change some rows, delete one, add one."""
        self._changes += 1
        at = self._changes
        self.database.execute(
            f"UPDATE orders SET state = {at} WHERE id % 7 = {at % 7}",
            f"DELETE FROM orders WHERE id = {at}",
            f"INSERT INTO orders VALUES ({ROWS + at}, {at}, 'new')",
        )

    def look(self) -> Look:
        """What `hybrid status` says of the live run, and of the table in the database."""
        try:
            found = status(self.loaded)
        except HybridError as error:
            return Look("unknown", str(error))
        assert found.live is not None
        return Look(found.live.health, f"{found.live.reason} {found.table_unknown or ''}".strip())


@pytest.fixture
def network(postgres: LocalPostgres) -> Iterator[Network]:
    with Network(postgres.port) as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, postgres: LocalPostgres, network: Network) -> Iterator[Shop]:
    made = Shop(tmp_path, postgres, network)
    yield made
    network.heal()
    stopping.stop(made.loaded)
    made.database.end()


@pytest.mark.timeout(3600)
def test_a_database_that_is_away_is_named_and_nothing_of_it_is_lost(
    shop: Shop, network: Network
) -> None:
    shop.log.start()
    equal = is_equal(shop.loaded)
    told: list[dict[str, Any]] = []
    faults: dict[str, Callable[[], None]] = {
        "nothing arrives": network.silence,
        "connections are refused": network.refuse,
    }

    def server_is_named(reason: str) -> bool:
        # The driver of PostgreSQL says it in words: server at "127.0.0.1", port 5432.
        return str(network.port) in reason

    for name, begin in faults.items():
        begin()
        begun = time.monotonic()
        with pytest.raises(HybridError) as refused:
            take_snapshot(shop.loaded)
        network.heal()
        past_s = round(time.monotonic() - begun, 1)
        reason = str(refused.value)
        told.append({"fault": f"{name}, snapshot", "reason": reason, "named after, s": past_s})
    take_snapshot(shop.loaded)
    shop.change()
    start_live(shop.loaded)
    wait_until_caught_up(PipelineContext.require(shop.loaded))
    wait_for(lambda: equal(None), "a table that is equal", BACK_S)

    def until_equal() -> float:
        begun = time.monotonic()
        wait_for(lambda: equal(None), lambda: f"an equal table: {shop.log.said[-2000:]}", BACK_S)
        return round(time.monotonic() - begun, 1)

    for name, begin in faults.items():
        begin()
        shop.change()
        found = watch(shop.look, server_is_named, FAULT_S)
        network.heal()
        shop.change()
        told.append({"fault": name, **found, "equal after, s": until_equal()})
        record("network-postgres", {"faults": told}, COMMAND)
    shop.log.kill_engine()
    shop.change()
    found = watch(shop.look, lambda _: False, 0, is_named=False)
    told.append({"fault": "the engine is killed", **found, "equal after, s": until_equal()})
    shop.log.kill()
    shop.change()
    found = watch(shop.look, lambda reason: shop.log.servers in reason, FAULT_S)
    shop.log.start()
    told.append({"fault": "the log's process is killed", **found, "equal after, s": until_equal()})
    record("network-postgres", {"faults": told}, COMMAND)
    assert wrong(audit(shop.loaded)) == {}
    compared = compare_with_source(shop.loaded)
    assert (compared.ok, compared.rows) == (True, ROWS)
    assert list(late(told)) == []
