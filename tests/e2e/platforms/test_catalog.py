"""Names of target and history in a catalog: of Spark's session, and of a real Hive metastore."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from pyarrow import parquet
from pyspark.sql import SparkSession

from hybrid_extensions.catalogs.spark.entry import CatalogEntry
from hybrid_extensions.catalogs.spark.place import table_folder
from hybrid_extensions.servers.metastore import LocalMetastore
from hybrid_extensions.servers.process import free_ports
from orchestration.operations import chain_plan
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError
from sources.storage.folder import Folder
from spark_jobs.jvm.jars import resolve
from tests.e2e.case import Case, run_through, wrong

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    """A schema of the session's catalog."""
    name = f"s{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


def made(spark: SparkSession, folder: Path, form: str = "delta") -> Folder:
    spark.range(3).write.format(form).save(str(folder))
    return Folder(folder)


def test_a_name_that_is_free_is_given_to_the_target_and_taken_again(
    tmp_path: Path, spark: SparkSession, schema: str
) -> None:
    entry = CatalogEntry(f"{schema}.orders", Folder(tmp_path / "it's here"))
    entry.require_free(spark)
    made(spark, tmp_path / "it's here")
    entry.register(spark)
    assert spark.table(f"{schema}.orders").count() == 3
    entry.require_free(spark)
    entry.register(spark)
    again = CatalogEntry(f"spark_catalog.{schema}.orders", Folder(tmp_path / "it's here"))
    again.require_free(spark)


@pytest.mark.parametrize("form", ["delta", "parquet", "view"])
def test_a_name_that_something_else_has_is_refused(
    tmp_path: Path, spark: SparkSession, schema: str, form: str
) -> None:
    name = f"{schema}.orders"
    if form == "view":
        spark.sql(f"CREATE VIEW {name} AS SELECT 1 AS id")
    else:
        other = made(spark, tmp_path / "other", form)
        spark.sql(f"CREATE TABLE {name} USING {form} LOCATION '{other}'")
    with pytest.raises(InputError, match=f"a (table of format )?{form}.*DROP TABLE {name}"):
        CatalogEntry(name, Folder(tmp_path / "own")).require_free(spark)
    assert not (tmp_path / "own").exists()


def test_a_name_whose_folder_holds_no_table_is_decided_once_the_target_is_made(
    tmp_path: Path, spark: SparkSession, schema: str
) -> None:
    target = made(spark, tmp_path / "own")
    entry = CatalogEntry(f"{schema}.orders", target)
    entry.register(spark)
    target.delete_all()
    entry.require_free(spark)
    made(spark, tmp_path / "own")
    entry.register(spark)


def test_a_name_of_another_folder_whose_table_is_gone_is_refused_before_anything_is_made(
    tmp_path: Path, spark: SparkSession, schema: str
) -> None:
    name = f"{schema}.orders"
    other = made(spark, tmp_path / "other")
    CatalogEntry(name, other).register(spark)
    other.delete_all()
    with pytest.raises(InputError, match=f"another folder without a table: .*DROP TABLE {name}"):
        CatalogEntry(name, Folder(tmp_path / "own")).require_free(spark)


@pytest.mark.parametrize("name", ["nowhere.orders", "nocatalog.nowhere.orders"])
def test_a_schema_that_does_not_exist_is_refused(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    with pytest.raises(InputError, match=f"no schema {name.rpartition('.')[0]} for {name}"):
        CatalogEntry(name, Folder(tmp_path)).require_free(spark)


def test_history_is_where_the_catalog_says(
    tmp_path: Path, spark: SparkSession, schema: str
) -> None:
    place = tmp_path / "it's here"
    spark.range(3).write.format("delta").save(str(place))
    escaped = str(place).replace("'", "\\'")
    spark.sql(f"CREATE TABLE {schema}.orders USING delta LOCATION '{escaped}'")
    assert table_folder(spark, "history", f"{schema}.orders") == str(place)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE VIEW {} AS SELECT 1 AS id", "is a view; only a Delta table can be"),
        ("CREATE TABLE {} (id INT) USING parquet", "is a table of format parquet"),
        ("SELECT 1 -- {}", "has no table .*declare the table's folder as `path`"),
    ],
)
def test_history_by_a_name_of_no_delta_table_is_refused(
    spark: SparkSession, schema: str, made: str, told: str
) -> None:
    spark.sql(made.format(f"{schema}.orders"))
    with pytest.raises(InputError, match=f"`history`.*{told}"):
        table_folder(spark, "history", f"{schema}.orders")


def test_history_in_a_schema_that_does_not_exist_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"has no table nowhere\.orders"):
        table_folder(spark, "history", "nowhere.orders")


READER = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for argument in sys.argv[2:]:
    builder = builder.config(*argument.split("=", 1))
print("rows:", builder.getOrCreate().table(sys.argv[1]).count())
"""


SQL = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for argument in sys.argv[2:]:
    builder = builder.config(*argument.split("=", 1))
builder.getOrCreate().sql(sys.argv[1])
"""
HIVE = {"spark.sql.catalogImplementation": "hive"}
METASTORE = "spark.hadoop.hive.metastore.uris"


def of_somebody_else(uri: str) -> dict[str, str]:
    """Settings of a Spark that is not this project's, with a Hive metastore."""
    return {
        "spark.jars": ",".join(map(str, resolve("spark"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **HIVE,
        METASTORE: uri,
    }


def counted(table: str, conf: dict[str, str]) -> int:
    """Rows that somebody else's Spark finds by a name."""
    arguments = [f"{name}={value}" for name, value in conf.items()]
    command = [sys.executable, "-c", READER, table, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(printed.partition("rows: ")[2])


@pytest.mark.kafka
def test_readers_find_the_target_by_name_in_a_hive_metastore(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()

    def named(uri: str) -> LoadedPipeline:
        def edit(document: dict[str, Any]) -> None:
            document["sink"]["table"] = "default.events"
            document["spark"]["conf"] |= {**HIVE, METASTORE: uri}

        return case.pipeline(edit)

    (port,) = free_ports(1)
    with pytest.raises(HybridError, match="Check that the metastore runs"):
        run_through(named(f"thrift://127.0.0.1:{port}"))
    assert not (tmp_path / "out").exists()
    with LocalMetastore() as metastore:
        report = run_through(named(metastore.uri))
        assert wrong(report) == {}
        conf = of_somebody_else(metastore.uri)
        assert counted("default.events", conf) == report.expected


@pytest.mark.kafka
@pytest.mark.analysis
def test_history_is_found_by_name_in_a_hive_metastore_and_read_by_its_path_from_then_on(
    tmp_path: Path, servers: str
) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    write_deltalake(str(tmp_path / "table"), parquet.read_table(tmp_path / "in"))
    case.produce()

    def named(uri: str, table: str = "default.past") -> LoadedPipeline:
        def edit(document: dict[str, Any]) -> None:
            (history, _) = document["sources"]
            del history["path"]
            history |= {"format": "delta", "table": table}
            document["spark"]["conf"] |= {**HIVE, METASTORE: uri}

        return case.pipeline(edit)

    with LocalMetastore() as metastore:
        made = f"CREATE TABLE default.past USING delta LOCATION '{tmp_path}/table'"
        arguments = [f"{name}={value}" for name, value in of_somebody_else(metastore.uri).items()]
        subprocess.run([sys.executable, "-c", SQL, made, *arguments], check=True)
        with pytest.raises(InputError, match=r"has no table default\.future"):
            chain_plan.plan(named(metastore.uri, "default.future"))
        assert not (tmp_path / "state").exists()
        loaded = named(metastore.uri)
        assert chain_plan.plan(loaded).files[0].table == f"{tmp_path}/table"
    # Without the metastore.
    assert wrong(run_through(loaded)) == {}
