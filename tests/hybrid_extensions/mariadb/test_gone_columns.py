"""What became of columns, by the statements that a connector reports."""

from __future__ import annotations

import pytest

from hybrid_extensions.cdc.databases.captured_table import UnknownDefault
from hybrid_extensions.mariadb.gone_columns import names_at
from hybrid_extensions.mariadb.log.schema_changes import SchemaChange
from sources.common.database_snapshot import BinlogSnapshot, file_position, gtid_position

OF_MARIADB = BinlogSnapshot(file=1, offset=1000, domain=0, sequence=10, taken_ms=0)
OF_MYSQL = BinlogSnapshot(file=1, offset=1000, domain=None, sequence=0, taken_ms=0)


def statement(
    text: str, columns: str, sequence: int = 11, *, is_read: bool = False
) -> SchemaChange:
    return SchemaChange(
        statement=f"ALTER TABLE t {text}",
        columns=columns.split(),
        is_read=is_read,
        gtid="" if is_read else f"0-1-{sequence}",
        file=1,
        offset=100 * sequence,
        kind="CREATE" if is_read else "ALTER",
    )


FIRST = statement("", "id a b", 1, is_read=True)


def names(*changes: SchemaChange, before: int = 99) -> dict[str, str | None]:
    """The names before a number of a transaction, in MariaDB and in MySQL."""
    listed = [FIRST, *changes]
    found = names_at(listed, OF_MARIADB, gtid_position(0, before, 5, 0))
    assert names_at(listed, OF_MYSQL, f"{file_position(1, 100 * before)}:") == found
    return found


def test_each_change_has_the_names_of_its_moment() -> None:
    changes = [
        statement("DROP COLUMN a, ADD d int", "id b d", 11),
        statement("RENAME COLUMN b TO c", "id c d", 13),
        statement("CHANGE c e bigint, COMMENT 'x'", "id e d", 15),
    ]
    assert names(*changes, before=10) == {"id": "id", "a": "a", "b": "b"}
    assert names(*changes, before=12) == {"id": "id", "a": None, "b": "b", "d": "d"}
    assert names(*changes, before=14)["b"] == "c"
    assert names(*changes)["b"] == "e"


def test_names_that_change_places_are_known() -> None:
    swapped = statement("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id b a")
    assert names(swapped) == {"id": "id", "a": "b", "b": "a"}
    moved = [statement("DROP b", "id a", 11), statement("RENAME COLUMN a TO b", "id b", 12)]
    assert names(*moved) == {"id": "id", "a": "b", "b": None}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([statement("DROP a", "id b"), statement("ADD a int", "id b a")], "`a` was dropped or re"),
        ([statement("DROP a, ADD a text", "id b a")], "`a` was dropped or renamed before this"),
        ([statement("/*M! DROP a */", "id b")], "is not sure to be understood"),
        ([statement("", "id b", is_read=True)], "the statement that changed the table's columns"),
    ],
)
def test_what_the_statements_do_not_tell_is_refused(changes: list[SchemaChange], told: str) -> None:
    with pytest.raises(UnknownDefault, match=told):
        names(*changes)


def test_without_a_definition_from_before_the_snapshot_nothing_is_known() -> None:
    with pytest.raises(UnknownDefault, match="no definition of the table from before the snapshot"):
        names_at([statement("DROP a", "id b")], OF_MARIADB, gtid_position(0, 99, 0, 0))
