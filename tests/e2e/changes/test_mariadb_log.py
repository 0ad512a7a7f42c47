"""How much of MariaDB's binary log a real connector has not written to the topics."""

from __future__ import annotations

import pytest

from orchestration import database_log
from orchestration.database_log import DatabaseLog
from services.connectors import Connectors
from sources.config.snapshot import SnapshotOptions
from sources.errors import RunError
from sources.kafka.client import KafkaLog
from tests.e2e.case import live_of
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, make_orders
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.slow]

_ROWS = 2000


def test_caught_up_reaches_to_the_end_of_the_log_and_says_what_waits_where(
    mariadb_case: BinlogCase, connect_mariadb: Connectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = mariadb_case
    make_orders(case)
    case.execute("CREATE TABLE others (id int)")
    case.capture(["orders"], heartbeat_interval_ms="500", connect_keep_alive_interval_ms="2000")
    case.wait_until_confirmed()
    options = SnapshotOptions(dsn=case.dsn, connector=case.connector)
    topic = KafkaLog(live_of(case.pipeline("orders", ORDERS)))
    before = sum(topic.log_end().values())
    wait_for(lambda: DatabaseLog(options).unread() == 0, "the connector", 120)

    connect_mariadb.pause(case.name)
    case.execute(
        "INSERT INTO orders SELECT seq, 'new', 1, now(6), NULL, NULL FROM "
        f"seq_100001_to_{100_000 + _ROWS}"
    )
    log = DatabaseLog(options)
    # It may be restarting.
    assert log.unread() > 10_000
    with monkeypatch.context() as patch:
        patch.setattr(database_log, "PATIENCE_S", 0)
        with pytest.raises(RunError, match="B in the database, not confirmed by the") as stopped:
            log.unread()
    assert f"Connector {case.connector} does not run" in str(stopped.value)

    connect_mariadb.resume(case.name)
    wait_for(lambda: log.unread() == 0, "the connector", 120)
    assert log.is_confirmed
    assert sum(topic.log_end().values()) == before + _ROWS

    # Changes of tables that are not captured count until the connector has passed them.
    case.execute("INSERT INTO others SELECT seq FROM seq_1_to_100000")
    log = DatabaseLog(options)
    wait_for(lambda: log.unread() == 0, "the connector", 120)
    # It confirms a statement that is no transaction only with the next one.
    case.execute("CREATE TABLE more (id int)", "ANALYZE TABLE orders")
    assert DatabaseLog(options).unread() == 0
