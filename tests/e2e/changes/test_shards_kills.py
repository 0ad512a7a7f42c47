"""Shards of each kind of database that change while the one driver of all of them is killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from examples.killer import Background
from examples.shop import make_shop
from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from orchestration.catch_up import wait_until_caught_up
from orchestration.chain import ChainRun, run_chain
from orchestration.operations import live_run, stopping
from sources.config.loader import LoadedPipeline
from sources.errors import RunError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.driver_lock import is_held
from tests.e2e.case import kill_driver, live_of, wrong
from tests.e2e.changes import binlog_case, cdc_case
from tests.e2e.changes.binlog_case import BinlogCase, make_orders
from tests.e2e.changes.cdc_case import CdcCase, is_equal
from tests.e2e.changes.shard_case import sharded
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(3600))

_PATIENCE_S = 600
_CHANGES = (
    "UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {b} AND {b} + 20",
    "UPDATE orders SET customer = 'again' WHERE id BETWEEN {b} AND {b} + 5",
    "DELETE FROM orders WHERE id BETWEEN {b} AND {b} + 2",
    "UPDATE orders SET id = id + {a} WHERE id BETWEEN {b} AND {b} + 3",
    "INSERT INTO orders (id, customer, amount) VALUES ({a}, 'new', 1), ({b}, 'back', 2)",
)


class Changing(Background):
    """Changes the rows of a shard all the time."""

    def __init__(self, shard: CdcCase | BinlogCase, seed: int) -> None:
        super().__init__()
        self._shard = shard
        self._chance = random.Random(seed)
        self.changes = 0

    def _works(self) -> bool:
        a, b = self._chance.randint(10**4, 10**9), self._chance.randint(1, 600)
        try:
            self._shard.execute(self._chance.choice(_CHANGES).format(a=a, b=b))
            self.changes += 1
        except (psycopg.errors.UniqueViolation, pymysql.err.IntegrityError):
            # A key that is taken.
            pass
        self._stop_now.wait(0.1)
        return True


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def shards(
    tmp_path: Path, servers: str, request: pytest.FixtureRequest
) -> Iterator[list[CdcCase] | list[BinlogCase]]:
    """Two databases with the same keys, each with a connector."""
    kind = request.param
    server = request.getfixturevalue(kind)
    with ExitStack() as opened:
        if kind == "postgres":
            connect = request.getfixturevalue("connect")
            of_postgres = [CdcCase(tmp_path, server, servers, connect) for _ in range(2)]
            for each in of_postgres:
                opened.callback(each.end)
                make_shop(each.dsn, 600)
                each.capture(["public.orders"], snapshot_mode="no_data")
            yield of_postgres
            return
        connect = request.getfixturevalue(f"connect_{kind}")
        one = BinlogCase(tmp_path, server, servers, connect)
        # The table has one name in all shards, and that of the database is part of it.
        second: MySqlServer = type(server)(tmp_path / "second")
        second.password = server.password
        opened.enter_context(second)
        of_binlogs = [one, BinlogCase(tmp_path, second, servers, connect, one.database)]
        for shard in of_binlogs:
            opened.callback(shard.end)
            make_orders(shard)
            shard.capture(["orders"])
            shard.wait_until_confirmed()
        yield of_binlogs


def pipeline(folder: Path, shards: list[CdcCase] | list[BinlogCase]) -> LoadedPipeline:
    """One target for both."""
    snapshots: dict[str, dict[str, str]] = {}
    topic: dict[str, Any] = {"bootstrap_servers": shards[0].servers}
    for shard in shards:
        if isinstance(shard, CdcCase):
            of_postgres = {"dsn": shard.dsn, "slot": shard.name}
            snapshots[f"{shard.name}.public.orders"] = of_postgres
            topic |= {"table": "public.orders"}
            topic |= {"schema": cdc_case.ORDERS, "include": cdc_case.INCLUDE}
        else:
            snapshots[shard.topic("orders")] = {"dsn": shard.dsn, "connector": shard.connector}
            topic |= {"table": f"{shard.database}.orders"}
            topic |= {"schema": binlog_case.ORDERS, "include": binlog_case.INCLUDE}
    return sharded(folder, snapshots, topic)


def test_they_end_equal_though_their_driver_is_killed_while_they_change(
    shards: list[CdcCase] | list[BinlogCase], tmp_path: Path
) -> None:
    loaded = pipeline(tmp_path, shards)
    first, second = shards
    changing = [Changing(first, 1), Changing(second, 2)]
    is_over = threading.Event()

    def kill_the_first_driver() -> None:
        while not is_over.is_set():
            generation = loaded.open_generation(create=False)
            if generation is not None and is_held(generation):
                kill_driver(loaded)
                return
            is_over.wait(0.05)

    killer = threading.Thread(target=kill_the_first_driver)
    for each in (*changing, killer):
        each.start()
    try:
        with pytest.raises(RunError):
            run_chain(ChainRun(loaded, rest_requested=True))
        killer.join()
        run_chain(ChainRun(loaded, rest_requested=True))
        for _ in range(2):
            wait_for_changes(changing)
            kill_driver(loaded)
            live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        for each in changing:
            each.stop()
        wait_until_caught_up(PipelineContext.require(loaded), lambda *_: None)
        equal = is_equal(loaded)
        wait_for(lambda: equal(None), "the target to equal both tables", _PATIENCE_S)
        found = compare_with_source(loaded)
        assert [each.rows > 300 for each in found.shards] == [True, True]
        report = audit(loaded)
        assert (wrong(report), report.ok) == ({}, True)
    finally:
        is_over.set()
        for each in changing:
            each.stop()
        stopping.stop(loaded)


def wait_for_changes(changing: list[Changing]) -> None:
    """Until each shard has fifty more."""
    before = [each.changes for each in changing]

    def has_more() -> bool:
        return all(each.changes > n + 50 for each, n in zip(changing, before, strict=True))

    wait_for(has_more, "more changes of both shards", _PATIENCE_S)
