"""Columns that a MariaDB table gets and renames: the target stays equal to it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.compare.compare_source import compare_with_source
from orchestration.supervision.status import status
from sources.config.loader import load_pipeline
from tests.e2e.case import wrong
from tests.e2e.changes.binlog_case import ORDERS, BinlogCase, make_orders
from tests.e2e.changes.cdc_case import is_equal, take_snapshot
from tests.e2e.in_session import fails_with, run_chain, run_live

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]


@pytest.fixture
def case(mariadb_case: BinlogCase) -> BinlogCase:
    make_orders(mariadb_case)
    return mariadb_case


def follow(document: dict[str, Any]) -> None:
    document["sources"][1]["on_schema_change"] = "follow"


def test_columns_are_added_widened_and_renamed(case: BinlogCase, spark: SparkSession) -> None:
    case.capture(["orders"])
    loaded = case.pipeline("orders", ORDERS, edit=follow)
    take_snapshot(loaded)
    run_chain(spark, loaded, is_equal(loaded))
    case.execute(
        "ALTER TABLE orders ADD note text, ADD discount decimal(6,2) NOT NULL DEFAULT 7.5",
        # The default of older rows stays what it was.
        "ALTER TABLE orders ALTER discount SET DEFAULT 8",
        "UPDATE orders SET discount = 0, note = 'x' WHERE id % 3 = 0",
        "INSERT INTO orders (id, amount) VALUES (-1, 0)",
        "ALTER TABLE orders ADD pieces int NOT NULL, ADD since datetime DEFAULT '2024-01-01'",
        "UPDATE orders SET amount = amount + 1 WHERE id % 5 = 0",
    )
    with fails_with(
        "the default of `since` ('2024-01-01') is no constant that a column of the type"
    ):
        run_live(spark, loaded, lambda _: False)
    case.execute(
        "ALTER TABLE orders DROP since",
        "ALTER TABLE orders MODIFY amount decimal(16,4)",
        "UPDATE orders SET amount = amount + 0.0001 WHERE id % 7 = 0",
    )

    # The change with the refused column is in the topic for good.
    def without_since(document: dict[str, Any]) -> None:
        follow(document)
        document["sources"][1]["ignored_columns"] = ["since"]

    loaded = case.pipeline("orders", ORDERS, edit=without_since)
    run_live(spark, loaded, is_equal(loaded))
    found = [(each.kind, each.column, each.type, each.default) for each in status(loaded).followed]
    assert found == [
        ("added", "note", "string", None),
        ("added", "discount", "decimal(6,2)", "7.5"),
        ("added", "pieces", "int", 0),
        ("widened", "amount", "decimal(16,4)", None),
    ]
    names = {field.name for field in DeltaTable(loaded.locate("out/orders")).schema().fields}
    assert {"note", "discount", "pieces"} <= names

    case.execute(
        "ALTER TABLE orders RENAME COLUMN customer TO buyer",
        "UPDATE orders SET buyer = 'renamed' WHERE id % 11 = 0",
    )
    with fails_with("has a column `buyer` that is not declared, and no longer has `customer`"):
        run_live(spark, loaded, lambda _: False)
    document = yaml.safe_load(loaded.path.read_text())
    document["sources"][1]["renamed_columns"] = {"customer": "buyer"}
    loaded.path.write_text(yaml.safe_dump(document))
    loaded = load_pipeline(loaded.path)
    run_live(spark, loaded, is_equal(loaded))
    case.execute(
        "ALTER TABLE orders ADD last int DEFAULT 1", "UPDATE orders SET buyer = 'b' WHERE id = 7"
    )
    run_live(spark, loaded, is_equal(loaded))
    assert [each.column for each in status(loaded).followed][-1] == "last"
    assert compare_with_source(loaded).columns[1] == "customer"
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
