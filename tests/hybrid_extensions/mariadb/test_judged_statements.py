"""Statements that a connector reports, as recorded: which of them altered a captured table."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid_extensions.cdc.databases.altered_table import Names, RequiredColumn
from hybrid_extensions.mariadb.judged_statements import judge
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange
from sources.common.database_snapshot import BinlogSnapshot
from sources.common.table_definition import BinlogColumn, BinlogDefinition
from sources.decoding.changes.declared_table import DeclaredTable

SNAPSHOT = BinlogSnapshot(file=1, offset=1000, domain=0, sequence=10, taken_ms=0)
TABLE = "shop.t"
SCHEMA = ["id", "v", "w"]
AT_SNAPSHOT = BinlogDefinition(
    key=["id"],
    columns={
        "id": BinlogColumn(type="int", is_nullable=False),
        "v": BinlogColumn(type="int"),
        "w": BinlogColumn(type="varchar(9)", charset="utf8mb4"),
    },
)


def with_columns(**changed: BinlogColumn | None) -> BinlogDefinition:
    columns = {**AT_SNAPSHOT.columns, **{n: c for n, c in changed.items() if c is not None}}
    columns = {name: each for name, each in columns.items() if changed.get(name, each) is not None}
    return BinlogDefinition(key=["id"], columns=columns)


def change(
    statement: str,
    kind: str = "ALTER",
    definition: BinlogDefinition | None = AT_SNAPSHOT,
    sequence: int = 11,
    *,
    is_read: bool = False,
) -> SchemaChange:
    return SchemaChange(
        statement=statement,
        columns=[] if definition is None else [*definition.columns],
        is_read=is_read,
        gtid="" if is_read else f"0-1-{sequence}",
        file=1,
        offset=100 * sequence,
        kind=kind,
        database="shop",
        definition=definition,
        at_ms=1,
    )


def found(*changes: SchemaChange, **declared: Any) -> str | None:
    """What the statements did, where the first record is the definition at the snapshot."""
    first = change("CREATE TABLE t (…)", "CREATE", sequence=1, is_read=True)
    names = Names(SCHEMA, DeclaredTable(table=TABLE, **declared))
    what = judge([first, *changes], TABLE, names, SNAPSHOT, None).altered
    return None if what is None else what[1]


def test_what_the_snapshot_contains_does_not_count() -> None:
    assert found(change("DROP TABLE t", "DROP", None, sequence=9)) is None
    assert found(change("DROP TABLE t", "DROP", None, sequence=11)) == "was dropped"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([change("CREATE TABLE t (id int)", "CREATE")], "is a different table now: it was created"),
        ([change("RENAME TABLE t TO x", "", None)], "renamed to x"),
        (
            [
                change(
                    "ALTER TABLE t MODIFY v tinyint",
                    "ALTER",
                    with_columns(v=BinlogColumn(type="tinyint")),
                )
            ],
            "has column `v` as tinyint now, which was int",
        ),
        (
            [
                change("ALTER TABLE t DROP v", "ALTER", with_columns(v=None)),
                change("ALTER TABLE t ADD v int", "ALTER"),
            ],
            "has another column named `v`",
        ),
        ([change("ALTER TABLE t DROP v, ADD v int")], "has another column named `v`"),
        (
            [change("ALTER TABLE t MODIFY v int GENERATED ALWAYS AS (id * 2) STORED")],
            "has another formula for column `v`",
        ),
        # The connector has missed the statement, and read the definition again.
        (
            [
                change(
                    "CREATE TABLE t (…)",
                    "CREATE",
                    with_columns(w=BinlogColumn(type="varchar(2)", charset="utf8mb4")),
                    is_read=True,
                )
            ],
            "has column `w` as varchar(2) now",
        ),
    ],
)
def test_the_first_statement_that_altered_rows_is_named(
    changes: list[SchemaChange], expected: str
) -> None:
    what = found(*changes)
    assert what is not None
    assert expected in what


def test_columns_that_are_added_dropped_and_renamed_go_on() -> None:
    wider = BinlogColumn(type="bigint")
    assert (
        found(
            change("ALTER TABLE t ADD x int", "ALTER", with_columns(x=BinlogColumn(type="int"))),
            change("ALTER TABLE t MODIFY v bigint", "ALTER", with_columns(v=wider)),
            change("ALTER TABLE t DROP w", "ALTER", with_columns(v=wider, w=None)),
        )
        is None
    )
    renamed = with_columns(v=None, pieces=BinlogColumn(type="int"))
    rename = change("ALTER TABLE t RENAME COLUMN v TO pieces", "ALTER", renamed)
    assert found(rename) is None
    narrow = with_columns(v=None, pieces=BinlogColumn(type="smallint"))
    later = change("ALTER TABLE t MODIFY pieces smallint", "ALTER", narrow)
    what = found(rename, later, renamed_columns={"v": "pieces"})
    assert what is not None
    assert "has column `pieces` as smallint now" in what


def test_a_column_that_became_required_is_left_to_the_target() -> None:
    required = with_columns(v=BinlogColumn(type="int", is_nullable=False))
    statement = "ALTER TABLE t MODIFY v int NOT NULL"
    names = Names(SCHEMA, DeclaredTable(table=TABLE))
    judged = judge([change(statement, "ALTER", required)], TABLE, names, SNAPSHOT, AT_SNAPSHOT)
    assert judged.altered is None
    assert judged.required == [
        RequiredColumn(table=TABLE, column="v", statement=statement, since_ms=1)
    ]
