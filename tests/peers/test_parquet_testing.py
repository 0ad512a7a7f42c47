"""Files of apache/parquet-testing: rows as Spark's own reader gives them, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import TimestampNTZType

from sources.common.sql.sql_names import in_backticks
from sources.errors import InputError
from sources.files.listing.split_table import settled_columns
from sources.formats.file_regions import Region
from sources.formats.open_file import open_file, read_region
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footers import needs_parsing
from sources.formats.parquet.rows import ParquetRows
from sources.storage.folder import Folder
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.inside.errors.input_file_errors import unreadable_file
from spark_jobs.inside.readers.files.plan_log import Entry, FilesOfLog, PlanLog

pytestmark = pytest.mark.spark

PROJECT = "parquet-testing"
STORES = Stores(S3Settings())
# Read although Spark reads them otherwise or not at all: docs/values.md, "What differs from Spark".
BINARY = "geospatial"
REFUSED = {"incorrect_map_schema.parquet": "Map keys must be annotated as required"}


def as_text(rows: DataFrame) -> list[str]:
    """The rows as JSON, with times in UTC, and geometries as the bytes that Parquet stores."""
    columns = []
    for field in rows.schema:
        value, kind = F.col(in_backticks(field.name)), field.dataType.simpleString()
        if isinstance(field.dataType, TimestampNTZType):
            value = value.cast("timestamp")
        elif kind.startswith(("geometry", "geography")):
            value = F.expr(f"st_asbinary({in_backticks(field.name)})")
        columns.append(value.alias(field.name))
    as_json = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return sorted(row[0] for row in rows.select(as_json).collect())


def read(spark: SparkSession, folder: Path, path: Path) -> list[str]:
    """The rows as a plan and what follows it read them.

    Raises:
        InputError: The file is refused; names it.
    """
    with open_file(str(path), ParquetRows(), STORES) as file:
        stored = parquet_file(file).schema_arrow
        columns = settled_columns("history", ParquetRows().columns(file), str(path))
    if any(map(needs_parsing, stored.types)):
        region = Region(str(path), 0, path.stat().st_size, path.stat().st_size)
        batches = [*read_region(ParquetRows(), region, columns, STORES)]
        table = pa.Table.from_batches(batches, columns)
        return as_text(spark.createDataFrame(table))
    log = PlanLog(Folder(folder / "log"))
    log.write(0, FilesOfLog(columns), [Entry(path.as_uri(), path.stat().st_size)])
    try:
        return as_text(spark.read.format("delta").load(log.folder.hadoop_path))
    except Exception as error:
        told = unreadable_file(error)
        if told is None:
            raise
        raise told from None


def outcome(spark: SparkSession, folder: Path, path: Path) -> str:
    """What became of a file: `right`, `refused as by Spark`, or what is wrong with it."""
    folder.mkdir()
    wanted: list[str] | None = None
    try:
        wanted = as_text(spark.read.parquet(str(path)))
    except (PySparkException, Py4JJavaError) as error:
        spark_told = str(error).partition("\n")[0]
    try:
        found = read(spark, folder, path)
    except InputError as error:
        if "file" not in error.fields:
            return f"no file is named: {error}"
        if wanted is None or REFUSED.get(path.name, "nothing") in str(error):
            return "refused as by Spark" if wanted is None else "refused as documented"
        return f"refused, though Spark reads it: {error}"
    if wanted is None:
        return "read as documented" if BINARY in path.parts else f"read, but Spark: {spark_told}"
    return "right" if found == wanted else f"{found[:2]} is not {wanted[:2]}"


@pytest.mark.parametrize("part", ["data", "bad_data"])
def test_each_file_is_read_as_by_spark_or_refused_by_name(
    peer: Callable[[str], Path],
    count: Callable[[str, str], None],
    hybrid_spark: SparkSession,
    tmp_path: Path,
    part: str,
) -> None:
    known = {"right", "refused as by Spark", "refused as documented", "read as documented"}
    wrong = {}
    files = sorted((peer(PROJECT) / part).rglob("*.parquet"))
    assert files
    for number, path in enumerate(files):
        found = outcome(hybrid_spark, tmp_path / str(number), path)
        count(PROJECT, found if found in known else "wrong")
        if found not in known:
            wrong[path.name] = found
    assert wrong == {}
