"""Several inputs in the audit: a table of each, by its own key, and DuckDB's join of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.audit.computed.translation import translate_query
from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from tests.e2e.case import wrong
from tests.minimal import minimal_pipeline

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
JOIN = "SELECT o.id, o.at, p.paid FROM orders AS o {} JOIN payments AS p ON p.order_id = o.id"
TIME = pa.timestamp("us", "UTC")
ORDERS = pa.schema([("id", pa.int64()), ("at", TIME)])
PAYMENTS = pa.schema([("paid", pa.int64()), ("order_id", pa.int64()), ("at", TIME)])


def at(number: int) -> datetime:
    return BEGIN + timedelta(minutes=number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Orders 0 to 9 in two files, of which some are in both; a payment for each even one."""
    orders = [{"id": n, "at": at(n)} for n in range(10)]
    payments = [{"paid": 100 + n, "order_id": n, "at": at(n + 1)} for n in range(0, 10, 2)]
    for name, rows, kind in (
        ("orders/0", orders[:6], ORDERS),
        ("orders/1", orders[4:], ORDERS),
        ("payments/0", payments, PAYMENTS),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, kind), tmp_path / f"{name}.parquet")
    found = [{"id": n, "at": at(n), "paid": 100 + n} for n in range(0, 10, 2)]
    target = pa.schema([("id", pa.int64()), ("at", TIME), ("paid", pa.int64())])
    write_deltalake(tmp_path / "out", pa.Table.from_pylist(found, target))
    return tmp_path


def declared(folder: Path, query: str = JOIN.format(""), **fields: Any) -> LoadedPipeline:
    (folder / "join.sql").write_text(query)
    inputs = {
        name: {
            "key": [key],
            "sources": [
                {"name": f"old_{name}", "type": "files", "format": "parquet", "path": f"{name}/*"}
            ],
        }
        for name, key in (("orders", "id"), ("payments", "paid"))
    }
    given = {"inputs": inputs, "transform": {"sql": "join.sql"}, **fields}
    return minimal_pipeline(folder, **given)


@pytest.mark.parametrize("query", [None, JOIN.format("").replace(".at", '."at"')])
def test_rows_of_each_input_count_once_by_its_own_key(folder: Path, query: str | None) -> None:
    fields: dict[str, Any] = {}
    if query is not None:
        (folder / "audit.sql").write_text(query)
        fields = {"audit": {"sql": "audit.sql"}, "transform": "transforms:paid"}
    report = audit(declared(folder, **fields))
    assert (wrong(report), report.outcome) == ({}, "passed")
    assert report.input_rows.sources == {"old_orders": 12, "old_payments": 5}
    assert report.input_rows.distinct == 15
    DeltaTable(folder / "out").delete("id = 4")
    report = audit(declared(folder, **fields))
    assert (wrong(report), report.outcome) == ({"missing": 1}, "failed")


def test_rows_of_one_key_that_differ_are_ambiguous_in_their_input(folder: Path) -> None:
    rows = [{"paid": 104, "order_id": 5, "at": at(6)}]
    pq.write_table(pa.Table.from_pylist(rows, PAYMENTS), folder / "payments" / "1.parquet")
    report = audit(declared(folder))
    assert (report.ambiguous, report.outcome) == (1, "failed")
    assert [each.key for each in report.examples["ambiguous"]] == [{"paid": 104}] * 2


@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL", "LEFT ANTI"])
def test_rows_that_are_not_final_at_once_need_a_query_of_their_own(folder: Path, side: str) -> None:
    with pytest.raises(InputError) as caught:
        audit(declared(folder, JOIN.format(side)))
    assert "are not in the target yet" in caught.value.message
    assert "computes the target from `orders` and `payments`" in caught.value.hint


def test_a_function_needs_a_query_for_its_audit(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        audit(declared(folder, transform="transforms:paid"))
    assert "which rows `transform: transforms:paid` makes of them" in caught.value.message
    assert "computes the target from `orders` and `payments`" in caught.value.hint


def test_a_source_with_the_name_of_an_input_is_refused_by_the_audit(folder: Path) -> None:
    path = declared(folder).path
    path.write_text(path.read_text().replace("old_payments", "orders"))
    with pytest.raises(InputError, match="`orders` is the table of the input `orders`"):
        audit(load_pipeline(path))


@pytest.mark.parametrize(
    ("query", "alone"),
    [
        ("SELECT * FROM a JOIN b ON a.id = b.id INNER JOIN c ON c.id = b.id", True),
        ("SELECT * FROM a CROSS JOIN b", True),
        ("SELECT * FROM a LEFT JOIN b ON a.id = b.id", False),
        ("SELECT * FROM a SEMI JOIN b ON a.id = b.id", False),
        ("SELECT count(*) AS n FROM a JOIN b ON a.id = b.id", False),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", False),
    ],
)
def test_only_rows_of_inner_joins_are_final_at_once(query: str, alone: bool) -> None:
    assert translate_query(query).joins_alone is alone
