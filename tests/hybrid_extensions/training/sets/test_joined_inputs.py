"""The table that several inputs are joined to is trained on, and served by a feed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

pytest.importorskip("hybrid_extensions.feeds", reason="it serves the table by a feed")

from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.delivery_loop import deliver_once
from hybrid_extensions.training.sets.compute import compute
from hybrid_extensions.training.sets.range_states import set_of
from tests.e2e.case import moment
from tests.e2e.in_session import run_history
from tests.e2e.seam.test_inputs import Inputs, orders, payments

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

DELIVER = """
import json
from pathlib import Path

def deliver(rows, delivery):
    with (Path(__file__).parent / "served").open("a") as file:
        for row in rows.to_pylist():
            file.write(json.dumps([row["payment_id"], row["order_id"]]) + "\\n")
"""
LABELS = pa.schema([("order_id", pa.int64()), ("asked", pa.timestamp("us", "UTC"))])


def trained_and_served(document: dict[str, Any]) -> None:
    table = {"name": "paid", "columns": ["payment_id"], "key": ["order_id"], "known_at": "paid_at"}
    labels = {"path": "labels.parquet", "key": ["order_id"], "time": "asked", "start": "2024-01-01"}
    made = {"name": "payers", "labels": labels, "tables": [table], "path": "payers"}
    document["training_sets"] = [made]
    document["feeds"] = [{"name": "online", "type": "python", "function": "serve:deliver"}]


def test_a_joined_table_is_trained_on_and_served(tmp_path: Path, spark: SparkSession) -> None:
    case = Inputs(tmp_path)
    case.archive("orders", orders(range(600)))
    case.archive("payments", payments(range(450)))
    (tmp_path / "serve.py").write_text(DELIVER)
    asked = {n: moment(n + 50) for n in range(600)}
    pq.write_table(
        pa.table([[*asked], [*asked.values()]], schema=LABELS), tmp_path / "labels.parquet"
    )
    loaded = case.pipeline(trained_and_served)
    run_history(spark, loaded)
    joined = {order: (payment, paid_at) for order, _, payment, paid_at in case.expected()}

    compute(loaded, set_of(loaded, "payers"))
    rows = DeltaTable(tmp_path / "payers").to_pyarrow_table()
    found = dict(
        zip(rows["order_id"].to_pylist(), rows["paid__payment_id"].to_pylist(), strict=True)
    )
    expected = {
        order: joined[order][0] if order in joined and joined[order][1] <= at else None
        for order, at in asked.items()
    }
    assert found == expected
    # Paid before and after it was asked, and not at all.
    late = [order for order, (_, paid_at) in joined.items() if paid_at > asked[order]]
    assert late
    assert set(expected.values()) > {None}
    assert min(paid_at - asked[order] for order, (_, paid_at) in joined.items()) < timedelta(0)

    deliver_once(loaded, feeds_of(loaded)[0], reload=False)
    served = [json.loads(line) for line in (tmp_path / "served").read_text().splitlines()]
    assert sorted(served) == sorted([payment, order] for order, (payment, _) in joined.items())
