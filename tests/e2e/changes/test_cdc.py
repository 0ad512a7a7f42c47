"""From a PostgreSQL table to its change log: the target equals the table, row for row."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from examples.shop import TABLES, Customers, make_shop
from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.compared.compared_table import ComparedTable
from hybrid_extensions.compare.compare_source import compare_table, compare_with_source
from hybrid_extensions.generations.lifecycle import rerun
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.connect import LocalConnect
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from orchestration.operations import live_run, stopping
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.rules.verdict import Finding
from orchestration.supervision.supervisor import tick
from sources.common.database_snapshot import PostgresSnapshot
from sources.config.loader import LoadedPipeline
from sources.errors import InputError, RunError
from sources.generations import begin
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from sources.storage.folder import Folder
from spark_jobs.run_state.requested_state import request
from tests.e2e.case import kill_driver, live_of, steps, wrong
from tests.e2e.changes.cdc_case import LINES, ORDERS, CdcCase, is_equal, take_snapshot
from tests.e2e.in_session import fails_with, run_chain, run_history, run_live
from tests.services.processes import wait_for
from tests.services.registry_server import avro_settings, schema_registry

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]


def test_changes_of_transactions_in_flight_at_the_snapshot_are_not_lost(
    case: CdcCase, spark: SparkSession
) -> None:
    case.capture(["public.orders"], snapshot_mode="no_data")
    case.execute("UPDATE orders SET amount = 1 WHERE id = 1")
    loaded = case.pipeline()
    with psycopg.connect(case.dsn) as in_flight:
        in_flight.execute("UPDATE orders SET amount = amount + 7 WHERE id <= 100")
        in_flight.execute("UPDATE orders SET id = 7000 WHERE id = 101")
        in_flight.execute("DELETE FROM orders WHERE id BETWEEN 110 AND 120")
        # Its rows lie after those in flight, and it is in the snapshot.
        case.execute("UPDATE orders SET customer = 'seen' WHERE id > 200")

        def interrupt(_: str) -> None:
            with psycopg.connect(case.dsn, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    "current_database() AND application_name = 'hybrid snapshot'"
                )

        # The session that holds the snapshot dies after the first chunk.
        with pytest.raises(RunError, match=r"of 5 chunks are kept\. Run it again") as caught:
            take_snapshot(loaded, interrupt)
        assert "password" not in str(caught.value).lower()
        with pytest.raises(Exception, match=r"of 5 chunks are written\. Run `hybrid snapshot P`"):
            run_history(spark, loaded)
        case.execute(
            "DELETE FROM orders WHERE id % 10 = 3 AND id > 130",
            "UPDATE orders SET id = id + 8000 WHERE id % 10 = 4 AND id > 130",
        )
        manifest = take_snapshot(loaded)
        assert (len(manifest.snapshots), manifest.missing) == (2, [])
        assert take_snapshot(loaded) == manifest
        seen = manifest.seen
        assert isinstance(seen, PostgresSnapshot)
        assert len(seen.in_progress) == 1
        in_flight.commit()
    case.restart()
    case.execute("UPDATE orders SET paid = true, receipt = '\\x00ff', day = '1999-12-31'")
    ledger = run_chain(spark, loaded, is_equal(loaded))
    assert (ledger.decided_by, ledger.rule) == ("offsets", "sequence")
    # By their own log position, as others do it, these would have been taken for delivered.
    assert lost_by_lsn(loaded, seen) >= 100 + 2 + 11
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    found = compare_with_source(loaded)
    assert found.rows > 800
    assert len(found.columns) == 7


def test_a_connectors_own_snapshot_leads_to_the_same_table(
    case: CdcCase, spark: SparkSession
) -> None:
    case.execute("ALTER TABLE orders ADD note text", "UPDATE orders SET note = repeat('x', 9999)")
    case.capture(["public.orders"])
    changes(case)

    def alone(document: dict[str, Any]) -> None:
        del document["sources"][0]
        document["sources"][0].update(start="earliest", ignored_columns=["note"])

    loaded = case.pipeline(edit=alone)
    require_sound_start(loaded)
    asked = ComparedTable(case.dsn, "public.orders", ORDERS, loaded.target)
    run_live(spark, loaded, lambda _: compare_table(asked).ok)
    # Known by name, a column is left out; another one is never left out silently.
    case.execute("ALTER TABLE orders ADD discount int", "UPDATE orders SET discount = 1")
    with fails_with("has a column `discount` that is not declared"):
        run_live(spark, loaded, lambda _: False)


def test_a_slot_that_is_gone_is_seen_though_nothing_waits(case: CdcCase) -> None:
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline()
    take_snapshot(loaded)
    make_plan(loaded)
    request(loaded.require_generation(), "changes", is_requested=True)
    assert slot_finding(loaded).passed
    case.end()
    found = slot_finding(loaded)
    assert (found.passed, found.is_pending) == (False, False)
    assert f"`{case.name}` did not exist" in found.text
    case.capture(["public.orders"], snapshot_mode="no_data")
    assert slot_finding(loaded).text == found.text


def test_columns_that_are_added_and_dropped_later_are_followed_in_place(
    case: CdcCase, spark: SparkSession
) -> None:
    loaded = taken_over(case, spark)
    case.execute(
        "ALTER TABLE orders ADD discount int DEFAULT 7, ADD note text",
        "UPDATE orders SET discount = NULL, note = 'x' WHERE id % 3 = 0",
    )
    with fails_with("has columns `discount`, `note` that are not declared"):
        run_live(spark, loaded, lambda _: False)
    with fails_with("Column `discount` of table `public.orders` has a default (7 as Debezium"):
        run_live(spark, declaring(case, {"discount": "int", "note": "string"}), lambda _: False)
    added = {"discount": {"type": "int", "default": 7}, "note": "string"}
    loaded = declaring(case, added)
    run_live(spark, loaded, is_equal(loaded))
    assert {*compare_with_source(loaded).columns} == {*ORDERS, "discount", "note"}
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
    with fails_with("the target got `discount` as int with the default 7"):
        run_live(spark, declaring(case, {**added, "discount": "int"}), lambda _: False)
    case.execute("ALTER TABLE orders DROP receipt", "UPDATE orders SET amount = 3 WHERE id > 500")
    with fails_with("no longer has the column `receipt`"):
        run_live(spark, loaded, lambda _: False)
    loaded = declaring(case, added, dropped=["receipt"])
    run_live(spark, loaded, is_equal(loaded))
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)


@pytest.mark.slow
def test_every_change_can_be_kept_in_a_table_that_only_grows(
    case: CdcCase, spark: SparkSession
) -> None:
    case.capture(["public.orders"], snapshot_mode="no_data")

    def growing(document: dict[str, Any]) -> None:
        document["sink"] = {"path": "out/orders", "mode": "append", "key": ["id", "_position"]}

    loaded = case.pipeline(edit=growing)
    take_snapshot(loaded)
    changes(case)
    case.execute("UPDATE orders SET amount = amount + 1 WHERE id < 50")
    run_chain(spark, loaded)
    kept = DeltaTable(loaded.locate("out/orders")).to_pyarrow_table()
    assert len(kept) > 1000
    with psycopg.connect(case.dsn) as connection, duckdb.connect() as query:
        there = connection.execute("SELECT id, amount FROM orders ORDER BY id").fetchall()
        query.register("kept", kept)
        # As of now; with another limit on `_position`, as of then.
        last = query.execute(
            "SELECT id, amount FROM (SELECT * FROM kept QUALIFY row_number() OVER "
            "(PARTITION BY id ORDER BY _position DESC NULLS LAST) = 1) WHERE NOT _deleted "
            "ORDER BY id"
        ).fetchall()
    assert last == there
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)


@pytest.mark.slow
def test_a_table_is_added_to_the_connector_while_another_one_is_followed(
    case: CdcCase, spark: SparkSession
) -> None:
    orders = taken_over(case, spark)
    lines = case.pipeline("lines", LINES, ("order_id", "line"))
    # Its topic alone is not enough: nothing would say that no change comes in.
    create_topic(case.servers, f"{case.name}.public.lines", 3, {"retention.ms": "-1"})
    with pytest.raises(InputError, match=r"`public.lines` is not in publication `shop_"):
        take_snapshot(lines)
    case.extend("public.lines")
    case.execute(
        "UPDATE orders SET amount = 5 WHERE id % 2 = 0", "DELETE FROM lines WHERE line = 1"
    )
    take_snapshot(lines)
    case.execute(
        "UPDATE lines SET quantity = 9 WHERE order_id < 50", "DELETE FROM orders WHERE id < 9"
    )
    run_chain(spark, lines, is_equal(lines))
    run_live(spark, orders, is_equal(orders))


@pytest.mark.slow
def test_a_slot_that_was_lost_is_made_good_by_a_new_snapshot_under_the_readers(
    case: CdcCase, spark: SparkSession
) -> None:
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline()
    take_snapshot(loaded)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
    case.end()
    # Nobody is told of these.
    case.execute(
        "DELETE FROM orders WHERE id % 3 = 0", "UPDATE orders SET amount = 8 WHERE id < 99"
    )
    case.capture(["public.orders"], snapshot_mode="no_data")
    assert not compare_with_source(loaded).ok

    def anew(document: dict[str, Any]) -> None:
        document["sources"][0]["path"] = "snapshot2/*.parquet"

    loaded = case.pipeline(edit=anew)
    said: list[str] = []
    begin(loaded)
    try:
        rerun(loaded, promote=True, rows_at_least=0.5, say=said.append)
        equal = is_equal(loaded)
        wait_for(lambda: equal(None), "the target to equal the table", 240)
        case.execute("UPDATE orders SET amount = 9 WHERE id > 900")
        wait_for(lambda: equal(None), "the target to equal the table", 240)
    finally:
        stopping.stop(loaded)


@pytest.mark.slow
def test_changes_in_avro_lead_to_the_same_table(
    tmp_path: Path, postgres: LocalPostgres, servers: str, spark: SparkSession
) -> None:
    with (
        schema_registry(tmp_path) as url,
        LocalConnect(servers, settings=avro_settings(tmp_path, url)) as connect,
    ):
        case = CdcCase(tmp_path, postgres, servers, connect.connectors)
        make_shop(case.dsn, 1000)
        case.capture(["public.orders"], snapshot_mode="no_data")

        def in_avro(document: dict[str, Any]) -> None:
            document["sources"][1]["registry"] = {"url": f"{url}/apis/ccompat/v7"}

        loaded = case.pipeline(edit=in_avro)
        take_snapshot(loaded)
        changes(case)
        ledger = run_chain(spark, loaded, is_equal(loaded))
        report = audit(loaded)
        case.end()
    assert (ledger.rule, wrong(report), report.ok) == ("sequence", {}, True)


def test_what_can_not_be_taken_over_is_refused_before_anything_is_read(case: CdcCase) -> None:
    case.execute("CREATE TABLE plain (id bigint PRIMARY KEY, v text)")
    columns = {"id": "bigint", "v": "string"}
    loaded = case.pipeline("plain", columns)
    with pytest.raises(InputError, match="topic"):
        take_snapshot(loaded)
    case.capture(["public.plain"], snapshot_mode="no_data")

    def other_slot(document: dict[str, Any]) -> None:
        document["sources"][0]["snapshot"]["slot"] = "nobody"

    with pytest.raises(InputError, match="There is no replication slot `nobody`"):
        take_snapshot(case.pipeline("plain", columns, edit=other_slot))
    with pytest.raises(InputError, match="has a column `v` that the `schema` lacks"):
        take_snapshot(case.pipeline("plain", {"id": "bigint"}))
    with pytest.raises(InputError, match="has no column `w`"):
        take_snapshot(case.pipeline("plain", {**columns, "w": "int"}))
    case.execute("INSERT INTO plain VALUES (1, 'x')")
    with pytest.raises(InputError, match="do not fit the `schema`"):
        take_snapshot(case.pipeline("plain", {"id": "bigint", "v": "int"}))
    case.execute("ALTER TABLE plain REPLICA IDENTITY NOTHING")
    with pytest.raises(InputError, match="REPLICA IDENTITY NOTHING"):
        take_snapshot(case.pipeline("plain", columns))


def test_a_table_that_row_level_security_hides_rows_of_is_refused(case: CdcCase) -> None:
    """PostgreSQL itself would answer with the rows that the role may see, without a word."""
    reader = f"reader_{case.name}"
    case.execute(
        "CREATE TABLE plain (id bigint PRIMARY KEY, v text)",
        "INSERT INTO plain VALUES (1, 'mine'), (2, 'hidden')",
        "ALTER TABLE plain ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON plain USING (v = 'mine')",
        f"CREATE ROLE {reader} LOGIN PASSWORD '{os.environ['PGPASSWORD']}'",
        f"GRANT SELECT ON plain TO {reader}",
    )
    case.capture(["public.plain"], snapshot_mode="no_data")
    columns = {"id": "bigint", "v": "string"}

    def as_reader(document: dict[str, Any]) -> None:
        dsn = document["sources"][0]["snapshot"]["dsn"]
        document["sources"][0]["snapshot"]["dsn"] = make_conninfo(dsn, user=reader)

    loaded = case.pipeline("plain", columns, edit=as_reader)
    with pytest.raises(InputError, match=f"may hide rows of table `public.plain` from `{reader}`"):
        take_snapshot(loaded)
    assert not list(case.folder.rglob("*.parquet"))
    write_deltalake(case.folder / "t", pa.table({"id": [1], "v": ["mine"]}))
    dsn = make_conninfo(case.dsn, user=reader)
    with pytest.raises(InputError, match="row-level security"):
        compare_table(ComparedTable(dsn, "public.plain", columns, Folder(case.folder / "t")))
    case.execute(f"ALTER ROLE {reader} BYPASSRLS")
    assert take_snapshot(loaded).done[0].rows == 2


@pytest.mark.slow
def test_a_table_in_use_is_taken_over_though_the_driver_is_killed(case: CdcCase) -> None:
    case.capture(TABLES, snapshot_mode="no_data")
    is_live = threading.Event()
    customers = Customers(
        case.dsn,
        5,
        rows=20,
        enough=lambda changes: is_live.is_set() and changes >= 3000,
        pause_s=0.5,
    )
    customers.start()
    loaded = case.pipeline()
    try:
        job = pipeline_definitions(loaded).resolve_job_def("orders")
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.execute_in_process(instance=instance)
        assert steps(result)[:3] == ["take_snapshot", "plan", "snapshot"]
        kill_driver(loaded)
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        is_live.set()
        customers.wait()
        equal = is_equal(loaded)
        wait_for(lambda: equal(None), "the target to equal the table", 240)
    finally:
        customers.stop()
        stopping.stop(loaded)


def taken_over(case: CdcCase, spark: SparkSession) -> LoadedPipeline:
    """The pipeline of `orders`, once its target equals the table."""
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline()
    take_snapshot(loaded)
    run_chain(spark, loaded, is_equal(loaded))
    return loaded


def slot_finding(loaded: LoadedPipeline) -> Finding:
    ticked = tick(loaded)
    assert ticked is not None
    return next(each for each in ticked.verdict.findings if each.name == "slot")


def declaring(case: CdcCase, added: dict[str, Any], dropped: Sequence[str] = ()) -> LoadedPipeline:
    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update(added_columns=added, dropped_columns=list(dropped))

    return case.pipeline(edit=edit)


def changes(case: CdcCase) -> None:
    case.execute(
        "UPDATE orders SET amount = -0.01, customer = 'é,\"' || chr(10) WHERE id % 5 = 0",
        "DELETE FROM orders WHERE id % 7 = 0",
        "UPDATE orders SET id = id + 9000 WHERE id % 11 = 0",
        "INSERT INTO orders VALUES (7, NULL, 0, NULL, NULL, NULL, '')",
    )


def require_sound_start(loaded: Any) -> None:
    make_plan(loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    require_sound(PipelineContext.require(loaded), live_of(loaded))


def lost_by_lsn(loaded: Any, snapshot: PostgresSnapshot) -> int:
    """Changes that the snapshot does not hold, and that lie before its log position."""
    log = KafkaLog(live_of(loaded))
    records = log.read(log.log_start(), 100_000, log.log_end())
    origins = [json.loads(each.value)["payload"]["source"] for each in records if each.value]
    running = [each % (1 << 32) for each in snapshot.in_progress]
    return sum(each["lsn"] <= snapshot.lsn and each["txId"] in running for each in origins)
