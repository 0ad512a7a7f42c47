"""From a table of MariaDB or MySQL to its change log: the target equals it, row for row."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.servers.databases.mysql_server import MySqlServer
from orchestration.operations import live_run, stopping
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.supervisor import tick
from sources.common.database_snapshot import BinlogSnapshot
from sources.errors import RunError
from sources.planning.context import PipelineContext
from tests.e2e.case import kill_driver, live_of, steps, wrong
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, Customers, make_orders, numbers
from tests.e2e.changes.cdc_case import is_equal, take_snapshot
from tests.e2e.in_session import run_chain
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found: MySqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def case(request: pytest.FixtureRequest, server: MySqlServer) -> BinlogCase:
    made: BinlogCase = request.getfixturevalue(f"{server.scheme}_case")
    make_orders(made)
    return made


def test_changes_around_an_interrupted_snapshot_are_in_the_table_once(
    case: BinlogCase, server: MySqlServer, spark: SparkSession
) -> None:
    case.capture(["orders"])
    case.execute("UPDATE orders SET amount = 1 WHERE id = 1")
    loaded = case.pipeline("orders", ORDERS)
    with server.connect(case.name) as in_flight, in_flight.cursor() as cursor:
        cursor.execute("SELECT connection_id()")
        [own] = cursor.fetchall()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE orders SET amount = amount + 7 WHERE id <= 100")
        cursor.execute("UPDATE orders SET id = -7 WHERE id = 101")
        cursor.execute("DELETE FROM orders WHERE id BETWEEN 110 AND 120")
        # By its key: MariaDB 11.8 would scan, and wait for the rows that are locked.
        case.execute("UPDATE orders FORCE INDEX (PRIMARY) SET customer = 'seen' WHERE id > 200")

        def interrupt(_: str) -> None:
            query = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> %s"
            with server.connect() as other, other.cursor() as found:
                found.execute(query, [case.name, *own])
                for (session,) in found.fetchall():
                    found.execute(f"KILL {session}")

        with pytest.raises(RunError, match=r"of 5 chunks are kept\. Run it again") as caught:
            take_snapshot(loaded, interrupt)
        assert caught.value.transient
        case.execute(
            f"DELETE FROM orders WHERE id IN ({', '.join(map(str, range(133, 1000, 10)))})",
            "UPDATE orders FORCE INDEX (PRIMARY) SET id = id + 8000 WHERE id % 10 = 4 AND id > 130",
        )
        manifest = take_snapshot(loaded)
        first, *later = manifest.snapshots
        assert isinstance(first, BinlogSnapshot)
        assert [each for each in later if isinstance(each, BinlogSnapshot)] == later
        assert min(manifest.snapshots, key=lambda each: each.taken_ms) == first
        assert (len(manifest.snapshots), manifest.missing) == (2, [])
        cursor.execute("COMMIT")
    case.execute("UPDATE orders SET paid = true, receipt = x'00ff', placed = '1999-12-31'")
    ledger = run_chain(spark, loaded, is_equal(loaded))
    assert (ledger.decided_by, ledger.rule) == ("offsets", "sequence")
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    assert compare_with_source(loaded).rows > 800


def test_keys_that_differ_by_case_alone_are_followed_as_they_are_written(
    case: BinlogCase, spark: SparkSession
) -> None:
    case.execute(
        "CREATE TABLE stock (sku varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, pieces int)",
        f"INSERT INTO stock {numbers(300)} concat('s', seq), seq FROM numbers",
    )
    case.capture(["stock"])
    loaded = case.pipeline("stock", {"sku": "string", "pieces": "int"}, key=["sku"])
    take_snapshot(loaded)
    case.execute(
        "UPDATE stock SET sku = upper(sku) WHERE pieces % 3 = 0",
        f"REPLACE INTO stock {numbers(50)} concat('S', seq), -seq FROM numbers",
        f"INSERT INTO stock {numbers(320)} concat('S', seq), 0 FROM numbers WHERE seq >= 90 "
        "ON DUPLICATE KEY UPDATE pieces = pieces + 1000",
        "DELETE FROM stock WHERE sku LIKE 'S1_'",
        "INSERT INTO stock VALUES ('s11 ', 11), ('ß', 12)",
    )
    run_chain(spark, loaded, is_equal(loaded))
    assert compare_with_source(loaded).rows == 312


def test_a_table_in_use_is_taken_over_though_the_driver_is_killed(
    case: BinlogCase, server: MySqlServer
) -> None:
    case.capture(["orders"])

    def watched(document: dict[str, Any]) -> None:
        document["sources"][0]["snapshot"].update(connector=case.connector)

    loaded = case.pipeline("orders", ORDERS, edit=watched)
    customers = Customers(server, case.name, 4)
    customers.start()
    try:
        job = pipeline_definitions(loaded).resolve_job_def("orders")
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.execute_in_process(instance=instance)
        assert steps(result)[:3] == ["take_snapshot", "plan", "snapshot"]
        kill_driver(loaded)
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        before = customers.transactions
        wait_for(lambda: customers.transactions > before + 200, "more changes", 240)
        customers.stop()
        equal = is_equal(loaded)
        wait_for(lambda: equal(None), "the target to equal the table", 240)
        ticked = tick(loaded)
        assert ticked is not None
        [found] = [each for each in ticked.verdict.findings if each.name == "slot"]
        assert found.passed, found.text
    finally:
        customers.stop()
        stopping.stop(loaded)
