"""Columns of two Parquet files in one, as they are stored."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructType

from sources.errors import RunError
from spark_jobs.inside.changed_columns.compute import compute_columns, read_as_they_are
from spark_jobs.inside.changed_columns.difference import Computed
from spark_jobs.inside.changed_columns.splice import splice

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
ROWS = 1000


def write(path: Path, table: pa.Table, group: int = 400, *, names_arrow: bool = False) -> None:
    pq.write_table(table, path, row_group_size=group, store_schema=names_arrow)


def given() -> pa.Table:
    return pa.table(
        {
            "id": range(ROWS),
            "v": [n / 2 if n % 7 else None for n in range(ROWS)],
            "nested": [{"a": n, "b": [n, n + 1]} for n in range(ROWS)],
            "old": ["x"] * ROWS,
        }
    )


def computed() -> pa.Table:
    return pa.table({"v": [str(n) for n in range(ROWS)], "w": range(ROWS, 2 * ROWS)})


# Files that Delta's Rust library or pyarrow wrote have Arrow's own schema in their footer.
@pytest.mark.parametrize("names_arrow", [False, True])
def test_columns_are_replaced_added_and_dropped_for_every_reader(
    tmp_path: Path, spark: SparkSession, names_arrow: bool
) -> None:
    write(tmp_path / "a", given(), names_arrow=names_arrow)
    write(tmp_path / "b", computed())
    size = splice(spark, tmp_path / "a", tmp_path / "b", ["old"], tmp_path / "c")
    assert size == (tmp_path / "c").stat().st_size
    expected = {
        "id": given()["id"],
        "v": computed()["v"],
        "nested": given()["nested"],
        "w": computed()["w"],
    }
    read = pq.read_table(tmp_path / "c").select(list(expected)).to_pydict()
    assert read == pa.table(expected).to_pydict()
    with duckdb.connect() as connection:
        query = f"SELECT id, v, nested, w FROM read_parquet('{tmp_path / 'c'}')"
        by_duckdb = connection.execute(query).to_arrow_table()
    assert by_duckdb.to_pydict() == pa.table(expected).to_pydict()
    assert spark.read.parquet(str(tmp_path / "c")).agg({"w": "sum"}).first() == (1_499_500,)
    groups = pq.read_metadata(tmp_path / "c")
    assert [groups.row_group(n).num_rows for n in range(3)] == [400, 400, 200]


def test_what_stays_is_copied_as_it_is_stored(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "a", given())
    write(tmp_path / "b", computed())
    splice(spark, tmp_path / "a", tmp_path / "b", [], tmp_path / "c")

    def stored(path: Path) -> list[bytes]:
        """The bytes of each column chunk of `id`."""
        data, footer = path.read_bytes(), pq.read_metadata(path)
        chunks = []
        for group in range(footer.num_row_groups):
            of = footer.row_group(group)
            [chunk] = [
                of.column(n) for n in range(of.num_columns) if of.column(n).path_in_schema == "id"
            ]
            begin = chunk.dictionary_page_offset or chunk.data_page_offset
            chunks.append(data[begin : begin + chunk.total_compressed_size])
        return chunks

    assert stored(tmp_path / "c") == stored(tmp_path / "a")


def test_columns_can_only_be_dropped(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "a", given())
    splice(spark, tmp_path / "a", None, ["old", "v"], tmp_path / "c")
    assert pq.read_table(tmp_path / "c").equals(given().select(["id", "nested"]))


def test_columns_of_other_row_groups_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    write(tmp_path / "a", given())
    write(tmp_path / "b", computed(), group=500)
    with pytest.raises(RunError, match="row groups"):
        splice(spark, tmp_path / "a", tmp_path / "b", [], tmp_path / "c")


def test_columns_of_every_type_are_what_spark_computes(tmp_path: Path, spark: SparkSession) -> None:
    root, folder = tmp_path / "table [of] {events}", tmp_path / "columns"
    for made in (root, folder):
        made.mkdir()
    for name in ("a.parquet", "b%20c.parquet"):
        write(root / name, given().select(["id", "v"]))
    groups = dict.fromkeys(("a.parquet", "b%20c.parquet"), (400, 400, 200))
    expressions = {
        "flag": "id > 3",
        "day": "date_add(DATE'2024-01-01', CAST(id AS int))",
        "at": "timestamp_micros(id * 1000001)",
        "local": "CAST(timestamp_seconds(id) AS timestamp_ntz)",
        "price": "CAST(id / 8 AS decimal(12, 3))",
        "much": "CAST(id AS decimal(38, 10)) * 1000000000",
        "raw": "CAST(CAST(id AS string) AS binary)",
        "nothing": "CAST(NULL AS string)",
        "v": "CAST(v AS string)",
        "parts": "named_struct('a', id, 'b', array(v, NULL))",
        "by_name": "map('x', id, 'y', NULL)",
        "ratio": "CAST(v AS float)",
    }
    schema = StructType().add("id", "long").add("v", "double")
    rows = read_as_they_are(spark, [root / name for name in groups], schema)
    computed = [Computed(name, F.expr(text)) for name, text in expressions.items()]
    expected = rows.select("id", *(each.value.alias(each.name) for each in computed))
    found: list[str] = []
    for each in compute_columns(rows, computed, root, folder, groups):
        made = tmp_path / f"{len(found)}.parquet"
        splice(spark, root / each.path, Path(each.columns), [], made)
        found.append(str(made))
    read = spark.read.schema(expected.schema).parquet(*found)
    # A map can't be compared as it is.
    one, other = (of.withColumn("by_name", F.map_entries("by_name")) for of in (read, expected))
    assert (one.count(), one.exceptAll(other).count()) == (2 * ROWS, 0)
