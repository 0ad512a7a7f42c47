"""A Delta table of others that is followed from its first version on, which has no rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.planning.plan import make_plan
from tests.e2e.case import SMALL, TRANSFORMS, moment, wrong
from tests.e2e.in_session import run_live
from tests.minimal import minimal_pipeline

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def rows(numbers: range, shop: str) -> pa.Table:
    at = pa.array([moment(number) for number in numbers], pa.timestamp("us", "UTC"))
    shops = pa.array([shop] * len(numbers), pa.string())
    return pa.table({"id": pa.array(numbers, pa.int64()), "at": at, "shop": shops})


def follower(folder: Path) -> LoadedPipeline:
    """A pipeline that follows the table beside it, with its plan."""
    (folder / "transforms.py").write_text(TRANSFORMS)
    source = {"type": "files", "name": "orders", "path": "table", "format": "delta"}
    followed = {**source, "discovery_interval": "100 ms"}
    loaded = minimal_pipeline(folder, followed, key=["id"], spark={"conf": dict(SMALL)})
    make_plan(loaded)
    return loaded


def test_an_empty_table_with_partitions_is_followed(tmp_path: Path, spark: SparkSession) -> None:
    table = tmp_path / "table"
    DeltaTable.create(table, rows(range(0), "").schema, partition_by=["shop"])
    loaded = follower(tmp_path)

    def goes_on() -> None:
        for number, shop in enumerate(["a b", "50%"]):
            begin = 10 * number
            write_deltalake(table, rows(range(begin, begin + 10), shop), mode="append")
        DeltaTable(table).optimize.compact()
        write_deltalake(table, rows(range(20, 30), "a b"), mode="append")

    run_live(spark, loaded, meanwhile=goes_on)
    report = audit(loaded)
    assert (report.expected, wrong(report), report.ok) == (30, {}, True)
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id", "shop"]).to_pylist()
    expected = {n: "50%" if 10 <= n < 20 else "a b" for n in range(30)}
    assert {each["id"]: each["shop"] for each in found} == expected


@pytest.mark.parametrize("was_mapped", [False, True])
def test_a_column_that_was_dropped_and_added_again_is_not_read_as_nulls(
    tmp_path: Path, spark: SparkSession, *, was_mapped: bool
) -> None:
    """It has the same name and type in the table, and another name in the files from then on."""
    table = tmp_path / "table"
    write_deltalake(table, rows(range(10), "a"))
    mapped = (
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    if was_mapped:
        spark.sql(mapped)
    loaded = follower(tmp_path)

    def goes_on() -> None:
        if not was_mapped:
            spark.sql(mapped)
        spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN shop")
        spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMN shop string")
        spark.sql(f"INSERT INTO delta.`{table}` SELECT 10, TIMESTAMP'2024-01-02 00:00:00Z', 'b'")

    with pytest.raises(InputError, match="column `shop` of the table"):
        run_live(spark, loaded, meanwhile=goes_on)
    found = DeltaTable(tmp_path / "out").to_pyarrow_table(columns=["id", "shop"]).to_pylist()
    assert {each["shop"] for each in found} == {"a"}
