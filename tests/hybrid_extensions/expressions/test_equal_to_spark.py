"""Every proven expression makes of every value in DuckDB what it makes in Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hybrid_extensions.expressions.nodes import FUNCTIONS
from sources.common.schema import type_name
from sources.common.sql.proven_expressions import Proven, Unproven, translate
from tests.hybrid_extensions.expressions.both_engines import (
    Failed,
    Outcomes,
    SparkRows,
    differences,
    duckdb_outcomes,
)
from tests.hybrid_extensions.expressions.composed import expressions
from tests.hybrid_extensions.expressions.hostile_values import hostile_table
from tests.hybrid_extensions.expressions.listed import PROVEN, UNPROVEN

ROWS = hostile_table()
_TOGETHER = 100
# `make expressions` sets a larger number.
ROUNDS = int(os.environ.get("EXPRESSION_ROUNDS", "2"))


@pytest.fixture(scope="module")
def rows(hybrid_spark: SparkSession) -> SparkRows:
    """Spark in ANSI mode and UTC, as in all runs."""
    assert hybrid_spark.conf.get("spark.sql.ansi.enabled") == "true"
    return SparkRows(hybrid_spark, ROWS)


def proven(texts: Sequence[str]) -> dict[str, Proven]:
    made = {text: translate(text, ROWS.schema) for text in texts}
    return {text: each for text, each in made.items() if isinstance(each, Proven)}


def different(
    rows: SparkRows, translations: Mapping[str, Proven], duck: Mapping[str, Outcomes]
) -> dict[str, object]:
    """Expressions of which value or type differ, with the rows and both values."""
    texts = [*translations]
    kinds = dict(zip(texts, rows.types(texts), strict=True))
    found: dict[str, object] = {
        text: f"{kinds[text]} in Spark, {type_name(each.type)} here"
        for text, each in translations.items()
        if type_name(each.type) != kinds[text]
    }
    for first in range(0, len(texts), _TOGETHER):
        spark = rows.outcomes(texts[first : first + _TOGETHER])
        for text, outcomes in spark.items():
            if unlike := differences(outcomes, duck[text]):
                found[text] = unlike
    return found


@pytest.mark.spark
def test_proven_expressions_are_equal_for_values_of_every_type(
    rows: SparkRows, record_property: Callable[[str, object], None]
) -> None:
    translations = proven(PROVEN)
    assert [text for text in PROVEN if text not in translations] == []
    assert len(translations) >= 400
    duck = duckdb_outcomes(ROWS, translations)
    assert different(rows, translations, duck) == {}
    assert [
        text for text, found in duck.items() if all(isinstance(each, Failed) for each in found)
    ] == []
    record_property("proven equal", len(translations))
    record_property("left to Spark", len(UNPROVEN))


@pytest.mark.spark
@settings(
    max_examples=ROUNDS,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(expressions(), min_size=30, max_size=60, unique=True))
def test_compositions_of_them_are_equal_too(rows: SparkRows, texts: list[str]) -> None:
    translations = proven(texts)
    assert different(rows, translations, duckdb_outcomes(ROWS, translations)) == {}


def test_each_function_of_the_list_is_compared() -> None:
    called = {name for text in PROVEN for name in re.findall(r"(\w+)\(", text.lower())}
    assert FUNCTIONS.keys() - called == set()


@pytest.mark.parametrize("text", UNPROVEN)
def test_what_is_not_on_the_list_is_left_to_spark(text: str) -> None:
    found = translate(text, ROWS.schema)
    assert isinstance(found, Unproven)
    assert found.reason
