"""Changes are followed while the snapshot of their table is still being read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc import snapshots
from hybrid_extensions.compare.compare_source import compare_with_source
from hybrid_extensions.generations.switch.readiness import require_ready
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.hand_over_checks import require_sound
from sources.planning.context import PipelineContext
from sources.planning.files.open_snapshot import find_whole
from sources.storage.tables.delta import delta_table, query_rows
from tests.e2e.case import live_of, wrong
from tests.e2e.changes.binlog_case import ORDERS as BINLOG_ORDERS
from tests.e2e.changes.binlog_case import BinlogCase, make_orders
from tests.e2e.changes.cdc_case import CdcCase, is_equal
from tests.e2e.changes.test_followed_columns import follow, has_all
from tests.e2e.in_session import DEADLINE_S, run_history, run_live
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

# Chunks of 200 rows: 1 is read before the others, 500 and more are not.
BEFORE = (
    "UPDATE orders SET customer = 'first' WHERE id IN (1, 201, 901)",
    "DELETE FROM orders WHERE id IN (2, 202, 902)",
    "UPDATE orders SET id = 9003 WHERE id = 3",
    "UPDATE orders SET id = -904 WHERE id = 904",
    "UPDATE orders SET id = 5 + 9000 WHERE id = 205",
    "INSERT INTO orders (id, customer, amount) VALUES (9100, 'new', 1), (-9100, 'new', 2)",
)
BETWEEN = (
    "UPDATE orders SET customer = 'again' WHERE id IN (1, 201, 9003, 9100)",
    "DELETE FROM orders WHERE id IN (6, 206, 906, -904)",
    "INSERT INTO orders (id, customer, amount) VALUES (2, 'back', 3), (902, 'back', 4)",
    "UPDATE orders SET id = 9907 WHERE id = 907",
    "DELETE FROM orders WHERE id = 9907",
)


class ChunksEndError(Exception):
    """The process that reads the chunks has ended."""


def while_reading(document: dict[str, Any]) -> None:
    document["sources"][0]["snapshot"].update(follow="while_reading", workers=1)


def follow_while_reading(
    spark: SparkSession, loaded: LoadedPipeline, execute: Callable[..., None]
) -> None:
    """The whole chain, with changes of rows that are read, and that are not, in each part of it."""
    [taken] = snapshots.take(loaded, lambda _: None, first_only=True)
    assert "in 1 of 5 chunks" in taken.text
    [again] = snapshots.take(loaded, lambda _: None, first_only=True)
    assert again.position == taken.position
    execute(*BEFORE)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))
    require_sound(PipelineContext.require(loaded), live_of(loaded))
    context = PipelineContext.require(loaded)

    def customer(key: int) -> list[object]:
        rows = query_rows(
            delta_table(loaded.target), f"SELECT customer FROM target WHERE id = {key}"
        )
        found: list[object] = rows.read_all()["customer"].to_pylist()
        return found

    chunks: list[str] = []

    def between(line: str) -> None:
        chunks.append(line)
        execute(*BETWEEN[len(chunks) - 1 : len(chunks)])
        seen = [f"seen {len(chunks)}"]
        execute(f"UPDATE orders SET customer = '{seen[0]}' WHERE id = 7")
        if len(chunks) < 4:
            # While others wait: this chunk, and the changes, are merged.
            wait_for(lambda: customer(7) == seen, "a change beside the chunks", DEADLINE_S)
        if len(chunks) == 2:
            raise ChunksEndError

    def read_some() -> None:
        require_partial(loaded, "1 of 5 chunks")
        wait_for(lambda: customer(1) == ["first"], "a change of a row that is read", DEADLINE_S)
        assert customer(2) == []
        with pytest.raises(ChunksEndError):
            snapshots.take(loaded, between)

    run_live(spark, loaded, meanwhile=read_some)
    # The reader may have begun another one.
    require_partial(loaded, "[34] of 5 chunks")

    def is_whole(_: object) -> bool:
        return find_whole(context.generation, "snapshot") is not None

    def read_the_rest() -> None:
        snapshots.take(loaded, between)

    # Another driver, and another snapshot of the database, go on.
    run_live(spark, loaded, is_whole, read_the_rest)
    assert len(chunks) == 4


def require_partial(loaded: LoadedPipeline, told: str) -> None:
    """What needs the whole table is refused, and people are told how far it is."""
    text = f"snapshot: {told}; the table is not whole yet"
    with pytest.raises(StateError, match=text) as caught:
        compare_with_source(loaded)
    assert caught.value.transient
    with pytest.raises(StateError, match=text):
        require_ready(PipelineContext.require(loaded))
    assert audit(loaded).outcome == "unknown"
    assert re.fullmatch(text, status(loaded).sources[-1].open_snapshot or "")


def test_a_table_of_postgresql_is_followed_while_its_chunks_are_read(
    case: CdcCase, spark: SparkSession
) -> None:
    case.capture(["public.orders"], snapshot_mode="no_data")
    loaded = case.pipeline(edit=while_reading)
    follow_while_reading(spark, loaded, case.execute)
    run_live(spark, loaded, is_equal(loaded))
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)
    assert status(loaded).sources[-1].open_snapshot is None


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_table_of_mariadb_or_mysql_is_followed_while_its_chunks_are_read(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession
) -> None:
    case: BinlogCase = request.getfixturevalue(f"{kind}_case")
    make_orders(case)
    case.capture(["orders"])
    loaded = case.pipeline("orders", BINLOG_ORDERS, edit=while_reading)
    follow_while_reading(spark, loaded, case.execute)
    run_live(spark, loaded, is_equal(loaded))
    report = audit(loaded)
    assert (wrong(report), report.ok) == ({}, True)


@pytest.mark.slow
@pytest.mark.parametrize("is_in_target", [False, True])
def test_a_column_that_is_added_between_chunks_has_its_default_in_later_ones(
    case: CdcCase, spark: SparkSession, *, is_in_target: bool
) -> None:
    """Chunks have the columns of the plan: rows that no change is of hold the default."""
    case.capture(["public.orders"], snapshot_mode="no_data")

    def edit(document: dict[str, Any]) -> None:
        while_reading(document)
        follow(document)

    loaded = case.pipeline(edit=edit)
    snapshots.take(loaded, lambda _: None, first_only=True)
    run_history(spark, loaded)
    hand_over(PipelineContext.require(loaded), live_of(loaded))

    def has_column() -> bool:
        return "discount" in delta_table(loaded.target).schema().to_arrow().names

    def end(_: str) -> None:
        raise ChunksEndError

    def read_the_rest() -> None:
        with pytest.raises(ChunksEndError):
            snapshots.take(loaded, end)
        case.execute(
            "ALTER TABLE orders ADD discount numeric(6,2) DEFAULT 7.5",
            "UPDATE orders SET discount = NULL WHERE id IN (1, 901)",
            "UPDATE orders SET discount = 9 WHERE id IN (201, 902)",
        )
        if is_in_target:
            wait_for(has_column, "the added column", DEADLINE_S)
        snapshots.take(loaded, lambda _: None)

    run_live(spark, loaded, has_all(case, loaded), read_the_rest)
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)
