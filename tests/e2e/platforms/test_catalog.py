"""The target's name in a catalog: of Spark's session, and of a real Hive metastore."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from services.metastore import LocalMetastore
from services.process import free_ports
from sources.config.loader import LoadedPipeline
from sources.errors import HybridError, InputError
from sources.storage.folder import Folder
from spark_jobs.jvm.jars import resolve
from spark_jobs.target.catalog_entry import CatalogEntry
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
    with pytest.raises(InputError, match=f"a {form} at .*DROP TABLE {name}"):
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


READER = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for argument in sys.argv[2:]:
    builder = builder.config(*argument.split("=", 1))
print("rows:", builder.getOrCreate().table(sys.argv[1]).count())
"""


def counted(table: str, conf: dict[str, str]) -> int:
    """Rows that somebody else's Spark finds by a name."""
    arguments = [f"{name}={value}" for name, value in conf.items()]
    command = [sys.executable, "-c", READER, table, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(printed.partition("rows: ")[2])


@pytest.mark.long
@pytest.mark.kafka
def test_readers_find_the_target_by_name_in_a_hive_metastore(tmp_path: Path, servers: str) -> None:
    case = Case(tmp_path, servers)
    case.write_history()
    case.produce()
    hive = {"spark.sql.catalogImplementation": "hive"}
    address = "spark.hadoop.hive.metastore.uris"

    def named(uri: str) -> LoadedPipeline:
        def edit(document: dict[str, Any]) -> None:
            document["sink"]["table"] = "default.events"
            document["spark"]["conf"] |= {**hive, address: uri}

        return case.pipeline(edit)

    (port,) = free_ports(1)
    with pytest.raises(HybridError, match="Check that the metastore runs"):
        run_through(named(f"thrift://127.0.0.1:{port}"))
    assert not (tmp_path / "out").exists()
    with LocalMetastore() as metastore:
        report = run_through(named(metastore.uri))
        assert wrong(report) == {}
        delta = {
            "spark.jars": ",".join(map(str, resolve("spark"))),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        conf = {**hive, **delta, address: metastore.uri}
        assert counted("default.events", conf) == report.expected
