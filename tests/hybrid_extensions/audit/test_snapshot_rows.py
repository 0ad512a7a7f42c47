"""A row of the snapshot is right although the topic has an older change of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import duckdb

from hybrid_extensions.audit.computed.row_versions import last_change_query
from hybrid_extensions.audit.computed.snapshot_rows import leave_out_held, settle_snapshot_rows
from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import EndPosition
from sources.config.pipeline import Pipeline
from tests.sources.config.test_schema_change import CHANGES, MERGE, SNAPSHOT, declared

COLUMNS = 'id BIGINT, v VARCHAR, seq VARCHAR, "at" TIMESTAMP, lsn BIGINT, "by" BIGINT'
# Key, value, position.
Row = tuple[int, str | None, str | None]


def settled(
    rows: list[Row],
    expected: list[Row],
    found: list[Row],
    repaired: Collection[str] = (),
    **more: Any,
) -> list[Row]:
    changes = {**CHANGES, "schema": {"id": "bigint", "v": "string"}, **more}
    pipeline: Pipeline = declared(SNAPSHOT, changes, sink=MERGE)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA audit")
        for name, content in (("rows", rows), ("expected", expected), ("found", found)):
            place = ", _place INT" if name == "rows" else ""
            connection.execute(f"CREATE TABLE audit.{name} ({COLUMNS}{place})")
            for row in content:
                values = [*row, None, None, None, *([0] if place else [])]
                marks = ", ".join("?" * len(values))
                connection.execute(f"INSERT INTO audit.{name} VALUES ({marks})", values)
        settle_snapshot_rows(connection, pipeline, repaired)
        query = "SELECT id, v, seq FROM audit.expected ORDER BY id"
        found_rows: list[Row] = connection.execute(query).fetchall()
        return found_rows


def test_the_targets_row_of_the_snapshot_is_expected_if_the_last_change_left_its_values() -> None:
    rows: list[Row] = [
        # In both, with equal values: the target may have either.
        (1, "a", None),
        (1, "a", "07"),
        (2, "a", None),
        (2, "a", "07"),
        (3, None, None),
        (3, None, "07"),
        # The change left other values.
        (4, "old", None),
        (4, "new", "09"),
    ]
    expected: list[Row] = [(1, "a", "07"), (2, "a", "07"), (3, None, "07"), (4, "new", "09")]
    found: list[Row] = [(1, "a", None), (2, "a", "07"), (3, None, None), (4, "old", None)]
    assert settled(rows, expected, found) == [
        (1, "a", None),
        (2, "a", "07"),
        (3, None, None),
        # So the row that the target holds is wrong.
        (4, "new", "09"),
    ]


# Column `gone` marks a delete, which leaves the values that the row had.
DELETED = f"{COLUMNS}, gone BOOLEAN"
IN_SNAPSHOT = "(1, 'a', NULL, NULL, NULL, NULL, NULL)"


def settled_deletes(sink: dict[str, Any], change: str, found: str) -> list[tuple[Any, ...]]:
    """Expected rows of a table that keeps what was deleted: of a snapshot's row and a change."""
    changes = {**CHANGES, "schema": {"id": "bigint", "v": "string"}, "on_schema_change": "stop"}
    pipeline = declared(SNAPSHOT, changes, sink=sink)
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA audit")
        connection.execute(f"CREATE TABLE audit.rows ({DELETED}, _place INT)")
        for place, row in enumerate((IN_SNAPSHOT, change)):
            connection.execute(f"INSERT INTO audit.rows SELECT *, {place} FROM (VALUES {row})")
        connection.execute(f"CREATE TABLE audit.expected AS {last_change_query(pipeline.sink)}")
        connection.execute(f"CREATE TABLE audit.found ({DELETED})")
        connection.execute(f"INSERT INTO audit.found VALUES {found}")
        settle_snapshot_rows(connection, pipeline)
        query = "SELECT seq, gone FROM audit.expected ORDER BY seq NULLS FIRST"
        settled_rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return settled_rows


def test_a_delete_that_the_target_has_lost_is_expected_though_it_left_the_values() -> None:
    soft = {**MERGE, "deletes": "soft"}
    deleted = "(1, 'a', '07', NULL, 7, 7, true)"
    assert settled_deletes(soft, deleted, IN_SNAPSHOT) == [("07", True)]
    updated = "(1, 'a', '07', NULL, 7, 7, false)"
    assert settled_deletes(soft, updated, IN_SNAPSHOT) == [(None, None)]


def test_each_version_is_expected_where_the_table_keeps_every_one() -> None:
    history = {**MERGE, "deletes": "soft", "history": "at"}
    change = "(1, 'a', '07', '2024-01-01', 7, 7, false)"
    assert settled_deletes(history, change, IN_SNAPSHOT) == [(None, None), ("07", False)]


def test_a_repaired_row_is_expected_if_it_has_the_values_of_the_last_change() -> None:
    changes: list[Row] = [(1, "a", "07"), (2, "b", "07"), (3, "c", "07"), (4, "d", "09")]
    found: list[Row] = [
        (1, "a", "08"),
        # With other values, of no repair, and older than the last change.
        (2, "other", "08"),
        (3, "c", "081"),
        (4, "d", "08"),
    ]
    assert settled(changes, changes, found, ["08"]) == [(1, "a", "08"), *changes[1:]]


def test_of_a_table_that_keeps_each_change_those_that_the_snapshot_contains_are_left_out() -> None:
    snapshot = PostgresSnapshot(lsn=500, xmin=70, xmax=75, in_progress=[72], taken_ms=0)
    end = EndPosition(
        source="snapshot",
        event_time_ms=0,
        complete_through_ms=0,
        event_times="exact",
        snapshot=snapshot,
        splits=1,
        rows=1,
    )
    rows: list[tuple[int, int | None, int | None, int]] = [
        (1, 500, None, 0),  # of the snapshot itself
        (2, 400, 71, 1),
        (3, 401, 72, 1),  # in flight
        (4, 501, 71, 1),  # later
    ]

    def left(sink: dict[str, Any], *ends: EndPosition) -> list[int]:
        pipeline: Pipeline = declared(SNAPSHOT, {**CHANGES, "on_schema_change": "stop"}, sink=sink)
        with duckdb.connect() as connection:
            connection.execute("CREATE SCHEMA audit")
            connection.execute('CREATE TABLE audit.rows (id INT, lsn INT, "by" INT, _place INT)')
            connection.executemany("INSERT INTO audit.rows VALUES (?, ?, ?, ?)", rows)
            leave_out_held(connection, pipeline, ends)
            found = connection.execute("SELECT id FROM audit.rows ORDER BY id").fetchall()
        return [row[0] for row in found]

    grows = {"path": "out", "mode": "append", "key": ["id", "seq"]}
    assert left(grows, end) == [1, 3, 4]
    assert left({**MERGE, "deletes": "soft", "history": "at"}, end) == [1, 3, 4]
    assert left(MERGE, end) == [1, 2, 3, 4]
    assert left(grows, end.model_copy(update={"snapshot": None})) == [1, 2, 3, 4]
