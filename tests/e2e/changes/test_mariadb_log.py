"""How much of a binary log a real connector has not written to the topics."""

from __future__ import annotations

import pytest

from hybrid_extensions.cdc import database_log
from hybrid_extensions.cdc.database_log import DatabaseLog
from hybrid_extensions.cdc.databases.replication_slot import ask_slot
from hybrid_extensions.cdc.databases.slot import Slot
from hybrid_extensions.servers.connectors import Connectors
from sources.config.source.snapshot import SnapshotOptions
from sources.errors import RunError
from sources.kafka.client.kafka_log import KafkaLog
from tests.e2e.case import live_of
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, make_orders
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.slow]

_ROWS = 2000


# As many rows as asked for, as both servers understand it.
_NUMBERS = (
    "WITH RECURSIVE numbers(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM numbers "
    "WHERE seq < 1000) SELECT a.seq * 1000 + b.seq{more} FROM numbers a, numbers b "
    "WHERE b.seq <= {thousands}"
)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_caught_up_reaches_to_the_end_of_the_log_and_says_what_waits_where(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    case: BinlogCase = request.getfixturevalue(f"{kind}_case")
    connectors: Connectors = request.getfixturevalue(f"connect_{kind}")
    make_orders(case)
    case.execute("CREATE TABLE others (id int)")
    case.capture(["orders"], heartbeat_interval_ms="500", connect_keep_alive_interval_ms="2000")
    case.wait_until_confirmed()
    options = SnapshotOptions(dsn=case.dsn, connector=case.connector)
    topic = KafkaLog(live_of(case.pipeline("orders", ORDERS)))
    before = sum(topic.log_end().values())
    wait_for(lambda: DatabaseLog(options).unread() == 0, "the connector", 120)

    connectors.pause(case.name)
    more = ", 'new', 1, now(6), NULL, NULL"
    thousands = _ROWS // 1000
    case.execute(f"INSERT INTO orders {_NUMBERS.format(more=more, thousands=thousands)}")
    log = DatabaseLog(options)
    # It may be restarting.
    assert log.unread() > 10_000
    with monkeypatch.context() as patch:
        patch.setattr(database_log, "PATIENCE_S", 0)
        with pytest.raises(RunError, match="B in the database, not confirmed by the") as stopped:
            log.unread()
    assert f"Connector {case.connector} does not run" in str(stopped.value)

    connectors.resume(case.name)
    wait_for(lambda: log.unread() == 0, "the connector", 120)
    assert log.is_confirmed
    assert sum(topic.log_end().values()) == before + _ROWS

    # Changes of tables that are not captured count until the connector has passed them.
    case.execute(f"INSERT INTO others {_NUMBERS.format(more='', thousands=100)}")
    log = DatabaseLog(options)
    wait_for(lambda: log.unread() == 0, "the connector", 120)
    # That of MariaDB confirms a statement that is no transaction only with the next one.
    case.execute("CREATE TABLE more (id int)", "ANALYZE TABLE orders")
    log = DatabaseLog(options)
    wait_for(lambda: log.unread() == 0, "the connector", 120)

    # The task fails at a change without its columns, and stays so.
    case.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE orders SET amount = 2")
    log = DatabaseLog(options)

    def has_failed() -> bool:
        slot = ask_slot(options)
        return isinstance(slot, Slot) and bool(slot.failure)

    wait_for(has_failed, "the failure", 120)
    assert log.unread() > 0
    with monkeypatch.context() as patch:
        patch.setattr(database_log, "PATIENCE_S", 0)
        with pytest.raises(RunError, match=r"is FAILED \(.*curl -X POST"):
            log.unread()
