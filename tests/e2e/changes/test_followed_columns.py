"""Columns of a captured table that are followed by themselves: the target stays equal to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import psycopg
import pytest
from deltalake import DeltaTable
from psycopg import sql
from pyspark.sql import SparkSession

from examples.shop import Customers
from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.spark import followed_columns as add_columns_to_target
from hybrid_extensions.cdc.spark import later_columns, widened_columns
from hybrid_extensions.compare.compare_source import compare_with_source
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from sources.planning.topics import followed_columns
from spark_jobs.inside.driver import schema_change
from tests.command_line import invoke
from tests.e2e.case import kill_driver, live_of, wrong
from tests.e2e.changes.cdc_case import ORDERS, CdcCase, take_snapshot
from tests.e2e.in_session import fails_with, run_chain, run_live
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]


def follow(document: dict[str, Any]) -> None:
    document["sources"][1]["on_schema_change"] = "follow"


def has_all(case: CdcCase, loaded: LoadedPipeline) -> Callable[[object], bool]:
    """Asks whether the target has every column and row of the table, by tools of others."""

    def ask(_: object) -> bool:
        dump, target = case.folder / "orders.csv", loaded.locate("out/orders")
        with psycopg.connect(case.dsn) as connection, dump.open("wb") as file:
            found = connection.execute(
                "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE "
                "attrelid = 'orders'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            )
            # DuckDB has types of the same names.
            kinds = {name: "text" if kind == "bytea" else kind for name, kind in found}
            names = list(kinds)
            listed = sql.SQL(", ").join(map(sql.Identifier, names))
            connection.execute("SET timezone = 'UTC'")
            copy = sql.SQL("COPY (SELECT {} FROM orders) TO STDOUT (FORMAT csv, HEADER)")
            with connection.cursor().copy(copy.format(listed)) as rows:
                for data in rows:
                    file.write(data)
        with duckdb.connect() as query:
            query.execute("SET timezone = 'UTC'")
            query.register("there", DeltaTable(target).to_pyarrow_table())
            there = query.sql("FROM there")
            if not {*names} <= {*there.columns}:
                return False
            query.execute(
                "CREATE TABLE source AS FROM read_csv($file, header = true, nullstr = '', "
                f"columns = {kinds})",
                {"file": str(dump)},
            )
            bytes_of = {
                n for n, kind in zip(there.columns, there.types, strict=True) if str(kind) == "BLOB"
            }
            shown = ", ".join(
                f"'\\x' || lower(hex({name})) AS {name}" if name in bytes_of else name
                for name in names
            )
            query.execute(f"CREATE TABLE target AS SELECT {shown} FROM there")
            counts = [
                query.sql(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchall()
                for one, other in (("source", "target"), ("target", "source"))
            ]
            return counts == [[(0,)], [(0,)]]

    return ask


def followed(
    case: CdcCase, spark: SparkSession, columns: dict[str, str] | None = None
) -> LoadedPipeline:
    """The pipeline of `orders`, which follows, once its target equals the table."""
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline(columns=columns, edit=follow)
    take_snapshot(loaded)
    run_chain(spark, loaded, has_all(case, loaded))
    return loaded


def test_columns_are_added_with_what_older_rows_hold(case: CdcCase, spark: SparkSession) -> None:
    loaded = followed(case, spark)
    case.execute(
        "ALTER TABLE orders ADD note text, ADD discount numeric(6,2) DEFAULT 7.5",
        # The default of older rows stays what it was.
        "ALTER TABLE orders ALTER discount SET DEFAULT 8",
        "UPDATE orders SET discount = NULL, note = 'x' WHERE id % 3 = 0",
        "INSERT INTO orders (id, amount) VALUES (-1, 0)",
        "ALTER TABLE orders ADD since timestamptz DEFAULT '2024-01-01T00:00:00Z'",
        "UPDATE orders SET amount = amount + 1 WHERE id % 5 = 0",
    )
    run_live(spark, loaded, has_all(case, loaded))
    found = status(loaded).followed
    assert [(each.column, each.type, each.default) for each in found] == [
        ("note", "string", None),
        ("discount", "decimal(6,2)", "7.50"),
        ("since", "timestamp", "2024-01-01 00:00:00+00"),
    ]
    assert all(each.position and each.topic.endswith(".public.orders") for each in found)
    # A restart knows them; the file does not.
    case.execute("UPDATE orders SET discount = 9, note = 'y' WHERE id % 4 = 0")
    run_live(spark, loaded, has_all(case, loaded))
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
    assert "added_columns" not in loaded.path.read_text()

    # What the database does not know stops as before.
    case.execute(
        "ALTER TABLE orders ADD token uuid DEFAULT gen_random_uuid()",
        "UPDATE orders SET amount = 3 WHERE id = 50",
    )
    with fails_with("is not followed: rows of table `public.orders` from before `token` was added"):
        run_live(spark, loaded, lambda _: False)


@pytest.mark.parametrize("place", ["changes_to_follow", "keep_followed", "_field", "_fill", "end"])
def test_a_driver_that_dies_at_any_step_is_completed_by_the_next(
    case: CdcCase, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    loaded = followed(case, spark)
    case.execute(
        "ALTER TABLE orders ADD discount int DEFAULT 7",
        "UPDATE orders SET discount = id WHERE id % 3 = 0",
    )

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        module = add_columns_to_target if place.startswith("_") else schema_change
        if place == "end":
            patch.setattr(schema_change, "PipelineContext", crash)
        else:
            patch.setattr(module, place, crash)
        with pytest.raises(KeyboardInterrupt):
            run_live(spark, loaded, lambda _: False)
    run_live(spark, loaded, has_all(case, loaded))
    kept = followed_columns.followed_columns(PipelineContext.require(loaded).generation)
    assert [each.column for each in kept] == ["discount"]


NARROW = {**ORDERS, "pieces": "int", "rate": "float"}


def narrow(case: CdcCase, spark: SparkSession) -> LoadedPipeline:
    """The pipeline of `orders` with columns that can be widened."""
    case.execute(
        "ALTER TABLE orders ADD pieces int DEFAULT 5, ADD rate real DEFAULT 0.1",
        "UPDATE orders SET pieces = id, rate = 0.3 WHERE id % 2 = 0",
    )
    return followed(case, spark, NARROW)


def test_widened_types_keep_every_value(case: CdcCase, spark: SparkSession) -> None:
    loaded = narrow(case, spark)
    case.execute(
        "UPDATE orders SET pieces = 6 WHERE id % 7 = 0",
        "ALTER TABLE orders ALTER pieces TYPE bigint, ALTER amount TYPE numeric(16, 4)",
        "UPDATE orders SET pieces = 1::bigint << 40 WHERE id % 3 = 0",
        "UPDATE orders SET amount = 12345678901.2345 WHERE id % 4 = 0",
    )
    run_live(spark, loaded, has_all(case, loaded))
    found = [(each.kind, each.column, each.type) for each in status(loaded).followed]
    # Both by one stop.
    assert sorted(found) == [
        ("widened", "amount", "decimal(16,4)"),
        ("widened", "pieces", "bigint"),
    ]
    # Before the first value would be rounded; and one more digit, and a column, at another time.
    case.execute(
        "ALTER TABLE orders ALTER rate TYPE double precision",
        "UPDATE orders SET rate = 0.7 WHERE id % 5 = 0",
        "ALTER TABLE orders ALTER amount TYPE numeric(20, 6), ADD note text",
        "UPDATE orders SET amount = 0.123456, note = 'x' WHERE id % 6 = 0",
    )
    run_live(spark, loaded, has_all(case, loaded))
    schema = {f.name: f.type.type for f in DeltaTable(loaded.locate("out/orders")).schema().fields}
    assert (schema["pieces"], schema["rate"], schema["amount"]) == (
        "long",
        "double",
        "decimal(20,6)",
    )
    assert compare_with_source(loaded).ok
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
    # A type that holds other values stops the run.
    case.execute(
        "ALTER TABLE orders ALTER pieces TYPE numeric(30)",
        "UPDATE orders SET pieces = 1e20 WHERE id = 50",
    )
    with fails_with("is not a valid bigint"):
        run_live(spark, loaded, lambda _: False)


@pytest.mark.parametrize("place", ["keep_followed", "widen_columns", "end"])
def test_a_driver_that_dies_while_it_widens_is_completed_by_the_next(
    case: CdcCase, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    loaded = narrow(case, spark)
    case.execute(
        "ALTER TABLE orders ALTER pieces TYPE bigint",
        "UPDATE orders SET pieces = 1::bigint << 40 WHERE id % 3 = 0",
    )

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if place == "keep_followed":
            patch.setattr(schema_change, place, crash)
        elif place == "widen_columns":
            patch.setattr(later_columns, place, crash)
        else:
            real = widened_columns.widen_columns

            def widen(*given: Any) -> None:
                real(*given)
                raise KeyboardInterrupt

            patch.setattr(later_columns, "widen_columns", widen)
        with pytest.raises(KeyboardInterrupt):
            run_live(spark, loaded, lambda _: False)
    run_live(spark, loaded, has_all(case, loaded))
    kept = followed_columns.followed_columns(PipelineContext.require(loaded).generation)
    assert [(each.kind, each.column) for each in kept] == [("widened", "pieces")]


@pytest.mark.crash
def test_a_driver_that_is_killed_under_writes_ends_with_the_table_of_the_database(
    case: CdcCase,
) -> None:
    case.execute("ALTER TABLE orders ADD pieces int DEFAULT 5")
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline(columns={**ORDERS, "pieces": "int"}, edit=follow)
    customers = Customers(case.dsn, 7, rows=10, enough=lambda _: False, pause_s=0.5)
    customers.start()
    try:
        ran = invoke(["run", str(loaded.path)])
        assert ran.exit_code == 0, ran.output
        case.execute(
            "ALTER TABLE orders ADD note text", "UPDATE orders SET note = 'x' WHERE id % 3 = 0"
        )
        wait_for(lambda: bool(status(loaded).followed), "the new column", 240)
        # Whether the target has the column by now.
        kill_driver(loaded)
        case.execute(
            "ALTER TABLE orders ALTER pieces TYPE bigint, ALTER amount TYPE numeric(16, 4)",
            "ALTER TABLE orders ADD discount int DEFAULT 7",
            "UPDATE orders SET pieces = 1::bigint << 40, discount = NULL WHERE id % 5 = 0",
            "UPDATE orders SET amount = 0.1234, note = 'y' WHERE id % 7 = 0",
        )
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        wait_for(lambda: len(status(loaded).followed) == 4, "the other changes", 240)
    finally:
        customers.stop()
    try:
        equal = has_all(case, loaded)
        wait_for(lambda: equal(None), "the target to equal the table", 240)
        shown = invoke(["status", str(loaded.path)]).output
        assert "column `note` (string) was added" in " ".join(shown.split())
        assert status(loaded).transform_changed is None
    finally:
        stopping.stop(loaded)
