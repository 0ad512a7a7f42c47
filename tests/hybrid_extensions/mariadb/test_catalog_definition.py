"""Which changes of a column leave all values of its rows, and what a connector says of a table."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid_extensions.mariadb.catalog_definition import find_alteration, reported_definition
from hybrid_extensions.mariadb.column_types import keeps_values, plain_type
from sources.common.table_definition import BinlogColumn, BinlogDefinition

# As Debezium 3.6 reports it.
REPORTED: dict[str, Any] = {
    "defaultCharsetName": "utf8mb4",
    "primaryKeyColumnNames": ["id"],
    "columns": [
        {"name": "id", "typeName": "INT", "typeExpression": "INT", "length": None},
        {
            "name": "w",
            "typeExpression": "VARCHAR",
            "charsetName": "utf8mb4",
            "length": 9,
            "optional": True,
        },
        {
            "name": "a",
            "typeExpression": "DECIMAL",
            "length": 12,
            "scale": 4,
            "optional": True,
        },
        {
            "name": "e",
            "typeExpression": "ENUM",
            "charsetName": "utf8mb4",
            "length": 1,
            "enumValues": ["'p'", "'it''s'"],
        },
        {"name": "u", "typeExpression": "BIGINT UNSIGNED", "length": 20},
        {"name": "dt", "typeExpression": "DATETIME", "length": 3},
        {"name": "b", "typeExpression": "TINYINT", "length": 1, "generated": True},
    ],
}


def test_a_connector_says_of_a_table_what_its_catalog_says() -> None:
    found = reported_definition(REPORTED)
    assert found == BinlogDefinition(
        key=["id"],
        columns={
            "id": BinlogColumn(type="int", is_nullable=False),
            "w": BinlogColumn(type="varchar(9)", charset="utf8mb4"),
            "a": BinlogColumn(type="decimal(12,4)"),
            "e": BinlogColumn(type="enum('p','it''s')", charset="utf8mb4", is_nullable=False),
            "u": BinlogColumn(type="bigint unsigned", is_nullable=False),
            "dt": BinlogColumn(type="datetime(3)", is_nullable=False),
            "b": BinlogColumn(type="tinyint", is_nullable=False, is_generated=True),
        },
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("int(11)", "int"),
        ("INTEGER", "int"),
        ("int(10) unsigned zerofill", "int unsigned"),
        ("bigint unsigned", "bigint unsigned"),
        ("BOOLEAN", "tinyint"),
        ("decimal", "decimal(10,0)"),
        ("NUMERIC(12)", "decimal(12,0)"),
        ("decimal(12,4) unsigned", "decimal(12,4) unsigned"),
        ("char", "char(1)"),
        ("text(300)", "text"),
        ("year(4)", "year"),
        ("datetime(0)", "datetime"),
        ("enum('a', 'b,c')", "enum('a','b,c')"),
        ("DOUBLE PRECISION", "double"),
        ("float(10,2)", "float(10,2)"),
    ],
)
def test_a_type_is_compared_without_how_it_is_displayed(written: str, expected: str) -> None:
    assert plain_type(written) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int unsigned", "bigint", True),
        ("int unsigned", "int", False),
        ("int", "int unsigned", False),
        ("int", "decimal(12,2)", True),
        ("int", "decimal(11,2)", False),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(10,1)", False),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(10,2)", "double", False),
        ("float", "double", True),
        ("double", "float", False),
        ("float(10,2)", "double", False),
        ("float(7,2)", "float", True),
        ("float", "float(7,2)", False),
        ("double(10,2)", "double", True),
        ("double(10,2)", "double(12,3)", True),
        ("double(10,2)", "double(10,3)", False),
        ("double unsigned", "double", True),
        ("double", "double unsigned", False),
        ("varchar(9)", "varchar(10)", True),
        ("varchar(9)", "varchar(2)", False),
        ("varchar(9)", "text", True),
        ("varchar(100)", "tinytext", False),
        ("varchar(9)", "char(9)", False),
        ("char(9)", "varchar(9)", True),
        ("longtext", "text", False),
        ("text", "mediumtext", True),
        ("varbinary(9)", "blob", True),
        ("binary(4)", "binary(8)", False),
        ("enum('p','q')", "enum('q','p','r')", True),
        ("enum('p','q')", "enum('q','p2')", False),
        ("enum('p','qq')", "varchar(2)", True),
        ("set('a','b')", "set('a','b','c')", True),
        ("set('a','b')", "set('b','a')", False),
        ("datetime", "datetime(6)", True),
        ("datetime(6)", "datetime(3)", False),
        ("datetime", "timestamp", False),
        ("date", "datetime", False),
        ("bit(1)", "bit(8)", True),
        ("int", "varchar(20)", False),
    ],
)
def test_a_wider_type_keeps_each_value(old: str, new: str, expected: bool) -> None:
    assert keeps_values(BinlogColumn(type=old), BinlogColumn(type=new)) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("utf8mb4", "latin1", False),
        ("utf8mb4", "utf8mb3", False),
        ("latin1", "utf8mb3", True),
        ("utf8mb3", "utf8mb4", True),
        ("latin1", "ascii", False),
        ("latin1", "latin1", True),
    ],
)
def test_a_larger_character_set_keeps_each_text(old: str, new: str, expected: bool) -> None:
    one, other = (BinlogColumn(type="text", charset=each) for each in (old, new))
    assert keeps_values(one, other) is expected


def test_formulas_may_give_rows_other_values() -> None:
    column = BinlogColumn(type="int")
    required = column.model_copy(update={"is_nullable": False})
    generated = column.model_copy(update={"is_generated": True})
    # What becomes of nulls the target tells.
    assert keeps_values(column, required)
    assert keeps_values(required, column)
    assert not keeps_values(column, generated)
    before = BinlogDefinition(key=["id"], columns={"v": column})
    after = BinlogDefinition(key=["id"], columns={"v2": generated})
    assert find_alteration(before, after, {"v": "v2"}) == (
        "has column `v2` as int that is generated now, which was int: the rows that were there "
        "may have other values"
    )
    other = before.model_copy(update={"key": ["id", "v"]})
    assert find_alteration(before, other, {}) == (
        "has another primary key now: `id`, `v` instead of `id`"
    )


def test_a_key_with_a_renamed_column_is_another_one() -> None:
    column = BinlogColumn(type="int")
    before = BinlogDefinition(key=["id"], columns={"id": column, "v": column})
    after = BinlogDefinition(key=["number"], columns={"number": column, "v": column})
    assert find_alteration(before, after, {"id": "number", "v": "v"}) == (
        "has another primary key now: `number` instead of `id`"
    )
