"""Kafka Connect ends for want of memory: it is told, and once it is back the table is equal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.record import record
from examples.shop import make_shop
from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.connect import LocalConnect, debezium_config
from hybrid_extensions.servers.connectors import Connectors
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from hybrid_extensions.servers.process import is_taken
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.planning.context import PipelineContext
from tests.e2e.case import start_live, wrong
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.e2e.supervision.faults import TOLD_S, look, watch
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
COMMAND = "python -m pytest tests/e2e/changes/test_connect_memory.py"
BACK_S = 900.0
# Takes the place of what the worker's own command says.
LITTLE = "-Xmx128m"
# One transaction, of which the connector holds all that has arrived.
ROWS, LENGTH = 700, 400_000


@pytest.fixture
def worker(tmp_path: Path, servers: str) -> Iterator[LocalConnect]:
    settings = {"value.converter.schemas.enable": "true"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_JAVA_OPTIONS", LITTLE)
        made = LocalConnect(servers, tmp_path / "connect", settings)
        made.start()
    yield made
    made.stop()


@pytest.mark.timeout(3600)
def test_a_connect_that_needs_more_memory_is_told_and_the_table_is_equal_once_it_has_it(
    tmp_path: Path, postgres: LocalPostgres, servers: str, worker: LocalConnect
) -> None:
    # The worker that takes this one's place answers at the same address.
    case = CdcCase(tmp_path, postgres, servers, Connectors(worker.port, worker.log))
    make_shop(case.dsn, 200)
    case.execute("ALTER TABLE orders ADD note text")
    case.capture(["public.orders"], snapshot_mode="no_data")

    def edit(document: dict[str, Any]) -> None:
        url = worker.connectors.url(case.name)
        document["sources"][0]["snapshot"]["connector"] = url
        # What takes the connector's memory is not compared.
        document["sources"][1]["ignored_columns"] = ["note"]

    loaded = case.pipeline(edit=edit)
    take_snapshot(loaded)
    equal = is_equal(loaded)
    try:
        start_live(loaded)
        case.execute("UPDATE orders SET paid = true WHERE id <= 50")
        wait_for(lambda: equal(None), "a table that is equal", BACK_S)
        assert look(loaded).health == "healthy"
        case.execute(
            "INSERT INTO orders (id, customer, amount, note) SELECT 100000 + n, 'x', 1, "
            f"repeat(md5(n::text), {LENGTH // 32}) FROM generate_series(1, {ROWS}) n",
            "DELETE FROM orders WHERE id <= 20",
        )
        wait_for(lambda: not is_taken(worker.port), "the worker's end", BACK_S)
        ended = time.monotonic()
        assert "OutOfMemoryError" in worker.log.read_text(errors="replace")

        def is_named(reason: str) -> bool:
            return "Kafka Connect does not answer" in reason and str(worker.port) in reason

        told = watch(lambda: look(loaded), is_named, 0)
        told["looked after, s"] = round(time.monotonic() - ended, 1)
        assert not equal(None)
        worker.kill()
        again = time.monotonic()
        _recreate(case, worker, postgres)
        wait_for(lambda: equal(None), "a table that is equal again", BACK_S)
        told["equal after, s"] = round(time.monotonic() - again, 1)
        record("connect-memory", {"faults": [told]}, COMMAND)
        wait_until_caught_up(PipelineContext.require(loaded))
        wait_for(lambda: look(loaded).health == "healthy", lambda: f"a healthy run: {look(loaded)}")
    finally:
        stopping.stop(loaded)
        case.end()
    assert wrong(audit(loaded)) == {}
    assert told["named after, s"] <= TOLD_S, told
    assert told["health"][-1] in ("catching-up", "cut-off"), told


def _recreate(case: CdcCase, worker: LocalConnect, postgres: LocalPostgres) -> None:
    """Create the connector again, which a worker in one process forgets with its end."""
    config = debezium_config(
        postgres, case.name, ["public.orders"], database_dbname=case.name, snapshot_mode="no_data"
    )
    worker.connectors.create(case.name, config)
