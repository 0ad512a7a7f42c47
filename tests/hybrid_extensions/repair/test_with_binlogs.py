"""A table of a real MariaDB or MySQL is repaired while its live run goes on."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from hybrid_extensions.audit.run import audit
from hybrid_extensions.repair import compared_rows
from hybrid_extensions.repair.run import look
from orchestration.defs.keys import table_key
from orchestration.pipeline_definitions import pipeline_definitions
from orchestration.supervision.controls import drain
from tests.e2e.case import wrong
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, make_orders
from tests.e2e.changes.cdc_case import take_snapshot
from tests.hybrid_extensions.repair.damage import CHANGES, damage
from tests.hybrid_extensions.repair.test_with_postgres import LIMIT, live, wait_until_equal

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.analysis]


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_damage_is_made_good_beside_the_live_run_and_later_changes_win(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared_rows, "RANGE_ROWS", 300)
    case: BinlogCase = request.getfixturevalue(f"{kind}_case")
    make_orders(case)
    case.capture(["orders"], heartbeat_interval_ms="500", connect_keep_alive_interval_ms="2000")
    case.wait_until_confirmed()

    def watched(document: dict[str, Any]) -> None:
        document["sources"][0]["snapshot"]["connector"] = case.connector

    loaded = case.pipeline("orders", ORDERS, edit=watched)
    take_snapshot(loaded)
    with live(loaded):
        case.execute(*CHANGES)
        wait_until_equal(loaded)
        damage(loaded)
        with case.server.connect(case.name) as connection, connection.cursor() as in_flight:
            in_flight.execute("BEGIN")
            in_flight.execute("UPDATE orders SET customer = 'in flight' WHERE id IN (3, 13, 200)")
            in_flight.execute("DELETE FROM orders WHERE id = 14")
            before = look(loaded, LIMIT)
            assert before.found[:5] == (9, 13, 3, 0, 0)
            # What is not committed is in no snapshot, and in the log behind it.
            job = pipeline_definitions(loaded).resolve_job_def("orders_control")
            form = {"do_orders_control": {"config": {"action": {"repair": {"apply": True}}}}}
            with dg.DagsterInstance.ephemeral() as instance:
                assert job.execute_in_process({"ops": form}, instance=instance).success
                seen = instance.fetch_observations(table_key(loaded), limit=1).records
            assert "9 rows are missing, 13 different, 3 extra" in str(seen[0].asset_observation)
            connection.commit()
        case.execute(
            "UPDATE orders SET customer = 'later' WHERE id IN (4, 15, 300)",
            "DELETE FROM orders WHERE id IN (5, 16)",
            "INSERT INTO orders (id, amount) VALUES (990002, 1), (6000, 1)",
        )
        wait_until_equal(loaded)
        again = look(loaded, LIMIT)
        assert (again.found.to_repair, again.found.impossible) == (0, 0)
        drain(loaded, LIMIT)
        report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
