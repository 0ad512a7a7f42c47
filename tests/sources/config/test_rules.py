"""Rules are refused before anything is read if they can't be decided for a row."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sources.config.table.row_rules import RowRules, Rule
from sources.errors import InputError
from tests.extensions import needs

COLUMNS = pa.schema([("amount", pa.float64()), ("kind", pa.string()), ("gone", pa.bool_())])


def rules(**checks: str) -> RowRules:
    return RowRules({name: Rule(check=text) for name, text in checks.items()}, "gone")


@needs("expressions")
@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("amount >", "is not SQL: a part of it is missing. Line 1, Col: 8."),
        ("amont > 0", "uses a column `amont`, which does not exist"),
        ("sum(amount) > 0", "is not evaluated row by row"),
        ("amount > (SELECT 1)", "is not evaluated row by row"),
        ("amount > rand()", "depends on `RAND()`: a row may break it in one run"),
        ("current_date() > '2024-01-01'", "depends on `CURRENT_DATE`"),
        ("amount + 1", "is not a condition but a value of type double"),
        ("kind > 'b' AND amount < 9", None),
    ],
)
def test_a_rule_that_is_no_condition_on_one_row_is_refused(check: str, told: str | None) -> None:
    if told is None:
        rules(good=check).require_columns(COLUMNS)
        return
    message = re.escape(f"Rule `rules.bad: {check}` {told}")
    with pytest.raises(InputError, match=message) as caught:
        rules(good="amount > 0", bad=check).require_columns(COLUMNS)
    assert caught.value.fields["field"] == "rules.bad"


@needs("expressions")
def test_the_first_broken_rule_decides_null_passes_and_deletes_are_not_checked() -> None:
    found = rules(positive="amount > 0 -- as sold", known="kind IN ('a', 'b')")
    rows: list[tuple[Any, ...]] = [
        (1.0, "a", None),
        (-1.0, "z", False),
        (None, "a", None),
        (None, None, None),
        (1.0, "z", None),
        (-1.0, "z", True),
    ]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (amount DOUBLE, kind VARCHAR, gone BOOLEAN)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        names = connection.sql(f"SELECT {found.over(COLUMNS).duckdb_sql} FROM rows").fetchall()
    assert [name for (name,) in names] == [None, "positive", None, None, "known", None]


@needs("expressions")
def test_a_rule_that_only_spark_evaluates_is_a_warning() -> None:
    found = rules(good="amount > 0", hashed="hash(kind) % 2 = 0 OR amount > 0")
    (warning,) = found.require_columns(COLUMNS)
    assert "`rules.hashed: hash(kind) % 2 = 0 OR amount > 0` is evaluated by Spark alone" in warning
    over = found.over(COLUMNS)
    assert over.unproven == {"hashed": "the function `hash`"}
    assert "hashed" not in over.duckdb_sql


def test_a_property_that_changes_what_conditions_mean_leaves_no_rule_proven() -> None:
    found = replace(rules(good="amount > 0"), changes_expressions="spark.sql.ansi.enabled")
    assert [*found.over(COLUMNS).unproven] == ["good"]
