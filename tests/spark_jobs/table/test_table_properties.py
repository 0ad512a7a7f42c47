"""Of which columns a target has statistics, and which properties it gets."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sources.config.table.sink import Sink
from spark_jobs.inside.sink.table_properties import (
    STATISTICS,
    missing_properties,
    table_properties,
)

COLUMNS = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("at", TimestampType()),
        StructField("day", DateType()),
        StructField("paid", BooleanType()),
        StructField("amount", DecimalType(9, 2)),
        StructField("v", DoubleType()),
    ]
)


def sink(**more: Any) -> Sink:
    return Sink.model_validate({"path": "out", "mode": "append", "key": ["id"], **more})


@pytest.mark.parametrize(
    ("declared", "listed"),
    [
        ({}, "`id`,`at`,`day`"),
        ({"key": ["name", "id"]}, "`name`,`id`,`at`,`day`"),
        ({"key": ["at", "amount"]}, "`at`,`day`"),
        ({"partition_by": ["day"]}, "`id`,`at`"),
        ({"mode": "merge", "sequence": "at"}, "`id`,`at`,`name`,`day`"),
    ],
)
def test_statistics_are_of_columns_by_which_files_can_be_skipped(
    declared: dict[str, Any], listed: str
) -> None:
    assert table_properties(sink(**declared), COLUMNS) == {STATISTICS: listed}


def test_declared_properties_come_first_and_change_an_existing_table() -> None:
    properties = {STATISTICS: "v", "delta.checkpointInterval": "50"}
    declared = sink(properties=properties)
    assert table_properties(declared, COLUMNS) == properties
    assert missing_properties(declared, COLUMNS, {STATISTICS: "v"}) == {
        "delta.checkpointInterval": "50"
    }
    assert missing_properties(declared, COLUMNS, properties) == {}
    # A table that grows keeps the statistics that it has from an earlier version.
    assert missing_properties(sink(), COLUMNS, {}) == {}
    merged = sink(mode="merge")
    assert missing_properties(merged, COLUMNS, {}) == {STATISTICS: "`id`,`name`,`at`,`day`"}
    assert missing_properties(merged, COLUMNS, {STATISTICS: "v"}) == {}


def test_a_property_that_would_change_what_the_table_is_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"`delta.appendOnly` is not a property that may be decl"):
        sink(properties={"delta.appendOnly": "true"})


@pytest.mark.parametrize("name", ["delta.enableDeletionVectors", "delta.autoOptimize.autoCompact"])
def test_rows_may_be_marked_as_deleted_only_where_they_are_merged(name: str) -> None:
    assert sink(mode="merge", properties={name: "true"}).properties == {name: "true"}
    with pytest.raises(ValueError, match=f"`{name}` is not .* declared with `mode: append`"):
        sink(properties={name: "true"})


def test_spark_alone_lets_rows_be_marked_as_deleted_also_where_the_table_exists() -> None:
    declared = sink(mode="merge", properties={"delta.enableDeletionVectors": "true"})
    created = table_properties(declared, COLUMNS)
    assert [*created] == [STATISTICS]
    for found in (created, {}):
        assert missing_properties(declared, COLUMNS, found)["delta.enableDeletionVectors"] == "true"
