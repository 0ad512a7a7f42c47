"""From a MySQL table to its change log: the target equals the table, row for row."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from tests.e2e.case import wrong
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, make_orders
from tests.e2e.changes.cdc_case import is_equal, take_snapshot
from tests.e2e.in_session import run_chain

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]
# All row events of a transaction have one position, and their rows are counted from 0 in each.
COMPRESSED = (
    "SET SESSION binlog_transaction_compression = ON",
    "BEGIN",
    "UPDATE orders SET amount = 500 WHERE id > 200",
    "UPDATE orders SET amount = 501 WHERE id > 700",
    "DELETE FROM orders WHERE id = 699",
    "INSERT INTO orders (id, amount) VALUES (699, 502)",
    "UPDATE orders SET id = -8 WHERE id = 698",
    "INSERT INTO orders (id, amount) VALUES (698, 503)",
    "DELETE FROM orders WHERE id = -8",
    "COMMIT",
    "UPDATE orders SET amount = 504 WHERE id = 3",
)


def test_changes_after_a_snapshot_are_in_the_table_once(
    mysql_case: BinlogCase, spark: SparkSession
) -> None:
    case = mysql_case
    make_orders(case)
    case.capture(["orders"])
    case.execute("UPDATE orders SET amount = 1 WHERE id = 1")
    loaded = case.pipeline("orders", ORDERS)
    take_snapshot(loaded)
    case.execute(
        "UPDATE orders SET amount = amount + 7 WHERE id <= 100",
        "UPDATE orders SET id = -7 WHERE id = 101",
        "DELETE FROM orders WHERE id BETWEEN 110 AND 120",
    )
    case.execute(*COMPRESSED)
    run_chain(spark, loaded, is_equal(loaded))
    assert compare_with_source(loaded).rows == 989
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
