"""Columns that come, go and change, by the policy of each event: the target stays equal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.cdc.databases.altered_table import keep_table_watch
from hybrid_extensions.cdc.databases.table_watch import inspect_table
from hybrid_extensions.cdc.spark import emptied_columns, later_columns
from orchestration.operations import live_run, stopping
from orchestration.supervision.status import status
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver import schema_change
from tests.command_line import invoke
from tests.e2e.case import kill_driver, live_of, wrong
from tests.e2e.changes.binlog_case import BinlogCase
from tests.e2e.changes.cdc_case import CdcCase, is_equal, take_snapshot
from tests.e2e.in_session import fails_with, run_chain, run_live
from tests.services.processes import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
]
Case = CdcCase | BinlogCase
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "pieces": "int",
    "amount": "decimal(12,4)",
    "secret": "string",
}
CREATE = (
    "CREATE TABLE items (id bigint PRIMARY KEY, name varchar(20), pieces int, "
    "amount numeric(12,4), secret varchar(20))",
    "INSERT INTO items VALUES (1, 'a', 1, 1.25, 's1'), (2, 'b', 2, 2.5, 's2'), "
    "(3, 'c', 3, 3, 's3')",
)
TYPE = {"postgres": "ALTER {} TYPE {}", "mariadb": "MODIFY {} {}", "mysql": "MODIFY {} {}"}
FOLLOW = {"added": "follow", "dropped": "follow", "renamed": "follow", "widened": "follow"}
IGNORE = {"added": "ignore", "dropped": "ignore", "renamed": "follow", "narrowed": "ignore"}


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def items(request: pytest.FixtureRequest, kind: str) -> Case:
    made: Case = request.getfixturevalue("case" if kind == "postgres" else f"{kind}_case")
    made.execute(*CREATE)
    return made


def captured(case: Case, policies: dict[str, str] | str) -> LoadedPipeline:
    """The pipeline of `items`, whose connector reads the log and whose snapshot is taken."""
    if isinstance(case, CdcCase):
        case.capture(["public.items"], snapshot_mode="no_data")
    else:
        case.capture(["items"])
    loaded = declared(case, policies)
    take_snapshot(loaded)
    return loaded


def declared(case: Case, policies: dict[str, str] | str, **more: Any) -> LoadedPipeline:
    def edit(document: dict[str, Any]) -> None:
        document["sources"][1].update({"on_schema_change": policies, **more})

    return case.pipeline("items", COLUMNS, edit=edit)


def becomes_equal(loaded: LoadedPipeline) -> Callable[[object], bool]:
    """Asks whether the target holds what the table holds, once it is known under which names."""
    equal = is_equal(loaded)

    def ask(beat: object) -> bool:
        with suppress(InputError):
            return equal(beat)
        return False

    return ask


def rows(loaded: LoadedPipeline, *names: str) -> list[tuple[Any, ...]]:
    """The rows of the target, by their key."""
    table = DeltaTable(loaded.locate("out/items")).to_pyarrow_table()
    with duckdb.connect() as connection:
        connection.register("target", table)
        found: list[tuple[Any, ...]] = connection.sql(
            f"SELECT {', '.join(names)} FROM target ORDER BY id"
        ).fetchall()
        return found


def kinds(loaded: LoadedPipeline) -> list[tuple[str, str]]:
    """What was done about changed columns."""
    return [(each.kind, each.column) for each in status(loaded).followed]


def test_each_event_is_followed(items: Case, kind: str, spark: SparkSession) -> None:
    loaded = captured(items, FOLLOW)
    run_chain(spark, loaded, is_equal(loaded))
    # A column that goes, and one that gets another name, in the same change as a new one.
    items.execute(
        "UPDATE items SET secret = 'late', pieces = 20 WHERE id = 2",
        "ALTER TABLE items DROP COLUMN secret",
        "ALTER TABLE items RENAME COLUMN name TO title",
        "ALTER TABLE items ADD note varchar(9) DEFAULT 'n'",
        "UPDATE items SET title = 'x', note = 'y' WHERE id = 1",
    )
    run_live(spark, loaded, becomes_equal(loaded))
    assert kinds(loaded) == [("renamed", "name"), ("emptied", "secret"), ("added", "note")]
    assert rows(loaded, "id", "name", "secret", "note") == [
        (1, "x", None, "y"),
        (2, "b", None, "n"),
        (3, "c", None, "n"),
    ]
    # Once more, and a wider type; a restart knows what was followed.
    wider = TYPE[kind].format("pieces", "bigint")
    items.execute(
        "ALTER TABLE items RENAME COLUMN title TO label",
        "UPDATE items SET label = 'z' WHERE id = 3",
        f"ALTER TABLE items {wider}",
        "UPDATE items SET pieces = 1099511627776 WHERE id = 3",
        "INSERT INTO items (id, label, amount) VALUES (4, 'd', 4)",
    )
    run_live(spark, loaded, becomes_equal(loaded))
    assert kinds(loaded)[3:] == [("renamed", "name"), ("widened", "pieces")]
    assert rows(loaded, "id", "name", "pieces", "secret")[2:] == [
        (3, "z", 1 << 40, None),
        (4, "d", None, None),
    ]
    assert (wrong(audit(loaded)), audit(loaded).ok) == ({}, True)


def test_what_is_ignored_stays_as_it_is_and_is_said(
    items: Case, kind: str, spark: SparkSession
) -> None:
    loaded = captured(items, IGNORE)
    run_chain(spark, loaded, is_equal(loaded))
    items.execute(
        "ALTER TABLE items ADD note varchar(9) DEFAULT 'n', DROP COLUMN secret",
        "UPDATE items SET note = 'y', pieces = 10 WHERE id = 1",
    )
    run_live(spark, loaded, lambda _: rows(loaded, "pieces")[0] == (10,))
    assert kinds(loaded) == [("dropped", "secret"), ("ignored", "note")]
    assert rows(loaded, "secret") == [(None,), ("s2",), ("s3",)]
    assert "note" not in {f.name for f in DeltaTable(loaded.locate("out/items")).schema().fields}
    shown = " ".join(invoke(["status", str(loaded.path)]).output.split())
    assert "column `note` (left out) was added at" in shown

    # Each value of the new type fits the column.
    narrower = TYPE[kind].format("amount", "numeric(10,2)")
    items.execute(f"ALTER TABLE items {narrower}", "UPDATE items SET amount = 7.25 WHERE id = 2")

    def is_said() -> bool:
        context = PipelineContext.require(loaded)
        seen = inspect_table(context.loaded, context.generation)
        assert seen is not None
        assert seen.altered is None
        keep_table_watch(context.generation, seen)
        return bool(seen.narrowed)

    wait_for(is_said, "the narrowed column", 60)
    run_live(spark, loaded, becomes_equal(loaded))
    shown = " ".join(invoke(["status", str(loaded.path)]).output.split())
    assert "column `amount` was narrowed from" in shown


def test_what_is_not_named_stops_with_the_way_out(items: Case, spark: SparkSession) -> None:
    loaded = captured(items, {"renamed": "follow"})
    run_chain(spark, loaded, is_equal(loaded))
    items.execute(
        "ALTER TABLE items RENAME COLUMN name TO title", "UPDATE items SET title = 'x' WHERE id = 1"
    )
    run_live(spark, loaded, becomes_equal(loaded))
    items.execute(
        "ALTER TABLE items DROP COLUMN secret", "UPDATE items SET title = 'y' WHERE id = 2"
    )
    with fails_with("no longer has the column `secret`"):
        run_live(spark, loaded, lambda _: False)
    loaded = declared(items, "stop", emptied_columns=["secret"])
    run_live(spark, loaded, becomes_equal(loaded))
    assert rows(loaded, "name", "secret") == [("x", None), ("y", None), ("c", None)]


@pytest.mark.parametrize("place", ["keep_followed", "empty_columns", "end"])
def test_a_driver_that_dies_at_any_step_is_completed_by_the_next(
    case: CdcCase, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    case.execute(*CREATE)
    loaded = captured(case, FOLLOW)
    run_chain(spark, loaded, is_equal(loaded))
    case.execute(
        "ALTER TABLE items DROP COLUMN secret, ADD note text",
        "ALTER TABLE items RENAME COLUMN name TO title",
        "UPDATE items SET title = 'x' WHERE id = 1",
    )

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    def crash_at_empty(*given: Any) -> None:
        if given[-1]:
            if place == "end":
                emptied_columns.empty_columns(*given)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if place == "keep_followed":
            patch.setattr(schema_change, place, crash)
        else:
            patch.setattr(later_columns, "empty_columns", crash_at_empty)
        with pytest.raises(KeyboardInterrupt):
            run_live(spark, loaded, lambda _: False)
    run_live(spark, loaded, becomes_equal(loaded))
    assert kinds(loaded) == [("renamed", "name"), ("emptied", "secret"), ("added", "note")]
    assert rows(loaded, "secret") == [(None,)] * 3


@pytest.mark.crash
def test_a_driver_that_is_killed_before_a_series_of_changes_ends_equal(items: Case) -> None:
    loaded = captured(items, FOLLOW)
    ran = invoke(["run", str(loaded.path)])
    assert ran.exit_code == 0, ran.output
    try:
        items.execute(
            "ALTER TABLE items DROP COLUMN secret", "UPDATE items SET pieces = 7 WHERE id = 2"
        )
        wait_for(lambda: bool(status(loaded).followed), "the dropped column", 240)
        # Whether the target's column is empty by now.
        kill_driver(loaded)
        items.execute(
            "ALTER TABLE items RENAME COLUMN name TO title",
            "UPDATE items SET title = 'x' WHERE id = 1",
            "ALTER TABLE items ADD note varchar(9) DEFAULT 'n'",
            "UPDATE items SET note = 'y' WHERE id = 3",
            "ALTER TABLE items DROP COLUMN pieces",
            "INSERT INTO items (id, title) VALUES (9, 'late')",
        )
        live_run.go_live(PipelineContext.require(loaded), live_of(loaded))
        equal = becomes_equal(loaded)
        wait_for(lambda: len(status(loaded).followed) == 4, "the other changes", 240)
        wait_for(lambda: equal(None), "the target to equal the table", 240)
        assert rows(loaded, "pieces", "secret") == [(None, None)] * 4
    finally:
        stopping.stop(loaded)
