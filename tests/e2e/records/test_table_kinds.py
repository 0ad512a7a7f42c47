"""Kinds of Iceberg and Delta tables: a run and the audit read what the table's own reader reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from pyspark.sql import SparkSession

from sources.errors import InputError
from tests.e2e.records.table_reading import Rows, plain, read_table
from tests.extensions import whole
from tests.hybrid_extensions.iceberg.tables import add_file, catalog, delete_rows

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
KEYS = (NestedField(1, "k", LongType()), NestedField(2, "at", TimestamptzType()))


def rows(*keys: int, **more: Any) -> pa.Table:
    times = [BEGIN + timedelta(seconds=key) for key in keys]
    columns = {"k": pa.array(keys, pa.int64()), "at": pa.array(times, pa.timestamp("us", "UTC"))}
    return pa.table({**columns, **more})


def made(
    folder: Path, *fields: NestedField, spec: Sequence[PartitionField] = (), version: int = 2
) -> Table:
    return catalog(folder).create_table(
        "shop.t",
        Schema(*KEYS, *fields),
        partition_spec=PartitionSpec(*spec),
        properties={"format-version": str(version)},
    )


def first_version(folder: Path) -> Table:
    table = made(folder, version=1)
    table.append(rows(1, 2))
    return table


def name_used_again(folder: Path) -> Table:
    table = made(folder)
    table.append(rows(1, 2))
    with table.update_schema() as change:
        change.rename_column("at", "was")
    with table.update_schema() as change:
        change.add_column("at", TimestamptzType())
    later = rows(5, 6)
    table.append(later.append_column("was", later["at"]))
    return table


def transforms(folder: Path) -> Table:
    spec = (
        PartitionField(2, 1000, DayTransform(), "day"),
        PartitionField(1, 1001, BucketTransform(4), "bucket"),
        PartitionField(3, 1002, TruncateTransform(1), "start"),
        PartitionField(3, 1003, IdentityTransform(), "v"),
    )
    table = made(folder, NestedField(3, "v", StringType()), spec=spec)
    # The files hold the column, too: what their partitions say is the same.
    add_file(table, rows(1, 2, v=["ab", "ab"]), 19_723, 1, "a", "ab")
    add_file(table, rows(3, v=pa.nulls(1, pa.string())), 19_723, 1, None, None)
    with table.update_spec() as change:
        change.remove_field("v")
    return add_file(table, rows(4, v=["ef"]), 19_723, 2, "e")


def promoted(folder: Path) -> Table:
    kinds = (IntegerType(), FloatType(), DecimalType(5, 2))
    fields = [NestedField(3 + at, f"c{at}", kind) for at, kind in enumerate(kinds)]
    table = made(folder, *fields)
    numbers = {"c0": pa.array([7], pa.int32()), "c1": pa.array([1.5], pa.float32())}
    table.append(rows(1, **numbers, c2=pa.array([Decimal("1.25")], pa.decimal128(5, 2))))
    with table.update_schema() as change:
        for at, kind in enumerate((LongType(), DoubleType(), DecimalType(20, 2))):
            change.update_column(f"c{at}", kind)
    table.append(
        rows(3, c0=[2**40], c1=[1e300], c2=pa.array([Decimal("1e15")], pa.decimal128(20, 2)))
    )
    return table


def nested(folder: Path) -> Table:
    inner = StructType(NestedField(4, "a", LongType()), NestedField(5, "b", StringType()))
    table = made(folder, NestedField(3, "s", inner))
    table.append(rows(1, s=[{"a": 1, "b": "x"}]))
    with table.update_schema() as change:
        change.rename_column("s.a", "c")
        change.delete_column("s.b")
    with table.update_schema() as change:
        change.add_column(("s", "b"), StringType())
    table.append(rows(2, s=[{"c": 2, "b": "new"}]))
    return table


def fixed(folder: Path) -> Table:
    table = made(folder, NestedField(3, "v", FixedType(3)))
    table.append(rows(1, v=pa.array([b"abc"], pa.binary(3))))
    return table


def deleted_by_position(folder: Path) -> Table:
    table = made(folder)
    table.append(rows(*range(10)))
    (task,) = table.scan().plan_files()
    return delete_rows(table, {task.file.file_path: [0, 9]})


def only_in_manifests(kind: IcebergType, *values: Any) -> Callable[[Path], Table]:
    def make(folder: Path) -> Table:
        spec = (PartitionField(3, 1000, IdentityTransform(), "v"),)
        table = made(folder, NestedField(3, "v", kind), spec=spec)
        for key, value in enumerate(values):
            add_file(table, rows(key), value)
        return table

    return make


@whole
@pytest.mark.parametrize(
    "make",
    [
        first_version,
        name_used_again,
        transforms,
        promoted,
        nested,
        fixed,
        deleted_by_position,
        only_in_manifests(StringType(), "a b/c=%é", None),
        only_in_manifests(LongType(), -7, 2**40),
        only_in_manifests(DateType(), 19_000, -1),
        only_in_manifests(BooleanType(), True, False),
        only_in_manifests(DecimalType(10, 2), Decimal("100000.00"), Decimal("-0.01")),
        only_in_manifests(TimestamptzType(), 1_704_067_200_000_001, -1),
    ],
)
def test_an_iceberg_table_is_read_as_pyiceberg_reads_it(
    tmp_path: Path, spark: SparkSession, make: Callable[[Path], Table]
) -> None:
    table = make(tmp_path / "lake")
    wanted = plain(table.scan().to_arrow())
    path = table.metadata_location.removeprefix("file://")
    found = read_table(spark, tmp_path / "p", format="iceberg", path=path)
    assert found.run == wanted
    assert found.audit == wanted
    assert (found.lowest, found.highest) == ends(wanted)


def ends(wanted: Rows) -> tuple[int, int]:
    micros = [(row["at"] - datetime(1970, 1, 1, tzinfo=UTC)) for row in wanted if row["at"]]
    found = [each // timedelta(microseconds=1) for each in micros]
    return min(found), max(found)


MAPPED = "'delta.columnMapping.mode' = '{}'"
SOME = "INSERT INTO {t} SELECT id, timestamp'2024-01-01' + make_interval(0, 0, 0, 0, 0, 0, id), "
PLAIN = "k bigint, at timestamp, v string"
RENAMED = [
    "ALTER TABLE {t} RENAME COLUMN v TO w",
    "ALTER TABLE {t} ADD COLUMN v int",
    "INSERT INTO {t} VALUES (20, timestamp'2024-02-01', 'x', 7)",
    "ALTER TABLE {t} DROP COLUMN w",
]
TIMES_AGAIN = [
    "ALTER TABLE {t} DROP COLUMN at",
    "ALTER TABLE {t} ADD COLUMN at timestamp",
    "INSERT INTO {t} VALUES (20, 'x', timestamp'2023-02-01')",
]
DELTA = {
    "clustered": (PLAIN, "CLUSTER BY (v)", "", [SOME + "'a' FROM range(9)", "OPTIMIZE {t}"]),
    "renamed": (PLAIN, "", MAPPED.format("name"), [SOME + "'a' FROM range(5)", *RENAMED]),
    "renamed by id": (PLAIN, "", MAPPED.format("id"), [SOME + "'a' FROM range(5)", *RENAMED]),
    "times again": (PLAIN, "", MAPPED.format("id"), [SOME + "'a' FROM range(5)", *TIMES_AGAIN]),
    "renamed partition": (
        PLAIN,
        "PARTITIONED BY (v)",
        MAPPED.format("name"),
        [
            SOME + "'a' FROM range(5)",
            "ALTER TABLE {t} RENAME COLUMN v TO w",
            "INSERT INTO {t} VALUES (20, timestamp'2024-02-01', 'x/=%')",
        ],
    ),
    "deleted rows": (
        PLAIN,
        "",
        "'delta.enableDeletionVectors' = 'true'",
        [SOME + "'a' FROM range(9)", "DELETE FROM {t} WHERE k = 8"],
    ),
    "checkpoints of version 2": (
        PLAIN,
        "",
        "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
        [f"INSERT INTO {{t}} VALUES ({at}, timestamp'2024-01-01', 'a')" for at in range(5)],
    ),
    "widened": (
        f"{PLAIN}, i int, f float, n decimal(5,2)",
        "",
        "'delta.enableTypeWidening' = 'true'",
        [
            "INSERT INTO {t} VALUES (1, timestamp'2024-01-01', 'a', 1, 1.5, 1.25)",
            "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN f TYPE double",
            "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(20,2)",
            "INSERT INTO {t} VALUES (2, timestamp'2024-01-02', 'b', 5000000000, 1e300, 1234567.25)",
        ],
    ),
    "times without a zone": (
        "k bigint, at timestamp_ntz, v string",
        "",
        "",
        ["INSERT INTO {t} VALUES (1, timestamp_ntz'2024-01-01 00:00:00.123', 'a')"],
    ),
    "times of partitions": (
        PLAIN,
        "PARTITIONED BY (at)",
        "",
        ["INSERT INTO {t} VALUES (1, timestamp'2024-01-01 00:00:00.123', 'a'), (2, null, 'b')"],
    ),
    "older than its times": (
        "k bigint, v string",
        "",
        "",
        [
            "INSERT INTO {t} VALUES (1, 'a')",
            "ALTER TABLE {t} ADD COLUMN at timestamp",
            "INSERT INTO {t} VALUES (2, 'b', timestamp'2024-01-01')",
        ],
    ),
    "partitions of all types": (
        f"{PLAIN}, d date, b boolean, n decimal(10,2), f double, ts timestamp",
        "PARTITIONED BY (v, d, b, n, f, ts)",
        "",
        [
            "INSERT INTO {t} VALUES (1, timestamp'2024-01-01', 'a b/c%=:é', date'2024-01-01', "
            "true, 1.50, 1.5, timestamp'1900-01-01 01:02:03.5'), "
            "(2, timestamp'2024-01-01', null, null, null, null, null, null)",
        ],
    ),
}


@pytest.mark.parametrize("kind", DELTA)
def test_a_delta_table_is_read_as_spark_reads_it(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    columns, layout, properties, statements = DELTA[kind]
    name = kind.replace(" ", "_")
    of = f"TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING delta {layout} LOCATION '{tmp_path / 'lake'}' {of}"
    )
    try:
        for statement in statements:
            spark.sql(statement.replace("{t}", name))
        wanted = plain(spark.read.format("delta").load(str(tmp_path / "lake")).toArrow())
    finally:
        spark.sql(f"DROP TABLE {name}")
    found = read_table(spark, tmp_path / "p", format="delta", path=str(tmp_path / "lake"))
    assert found.run == wanted
    assert found.audit == wanted
    low, high = ends(wanted)
    assert found.lowest == low
    # Statistics of a log keep milliseconds.
    assert found.highest is not None
    assert found.highest // 1000 == high // 1000


def test_dates_that_became_times_are_read_once_type_widening_is_dropped(
    tmp_path: Path, spark: SparkSession
) -> None:
    lake = tmp_path / "lake"
    spark.sql(
        f"CREATE TABLE dates (k bigint, at timestamp, d date) USING delta LOCATION '{lake}' "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        "'delta.feature.timestampNtz' = 'supported')"
    )
    try:
        spark.sql("INSERT INTO dates VALUES (1, timestamp'2024-01-01', date'2024-02-03')")
        spark.sql("ALTER TABLE dates ALTER COLUMN d TYPE timestamp_ntz")
        with pytest.raises(InputError, match="column `d` of its Delta table was of the type date"):
            read_table(spark, tmp_path / "p", format="delta", path=str(lake))
        spark.sql("ALTER TABLE dates DROP FEATURE 'typeWidening'")
        wanted = plain(spark.read.format("delta").load(str(lake)).toArrow())
    finally:
        spark.sql("DROP TABLE dates")
    found = read_table(spark, tmp_path / "q", format="delta", path=str(lake))
    assert found.run == wanted
    assert [row["d"].date().isoformat() for row in found.run] == ["2024-02-03"]
