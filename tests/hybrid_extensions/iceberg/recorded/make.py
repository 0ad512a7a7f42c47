"""Make the recorded tables: ``python -m tests.hybrid_extensions.iceberg.recorded.make``.

In an environment with Spark 4.1, as ``make install SPARK=4.1 VENV=…`` makes it, and with Iceberg's
runtime for it on the class path: its Maven coordinates are below.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.hybrid_extensions.iceberg.recorded.place import ARCHIVE, PLACE
from tests.hybrid_extensions.iceberg.recorded.statements import (
    FIRST,
    SECOND,
    TABLES,
    THIRD,
    Made,
)

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
# What is not compressed can be moved by a change of bytes.
_PLAIN = {
    "write.parquet.compression-codec": "uncompressed",
    "write.delete.parquet.compression-codec": "uncompressed",
    "write.delete.format.default": "parquet",
}


def session() -> SparkSession:
    """A session with a catalog of Iceberg in a folder."""
    catalog = {"type": "hadoop", "warehouse": f"file://{PLACE}"}
    builder = SparkSession.builder.master("local[1]").config("spark.jars.packages", RUNTIME)
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.lake.{name}": value for name, value in catalog.items()},
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def make(spark: SparkSession, made: Made, name: str, version: int) -> str | None:
    """Make a table; return why Spark can't make it, or None."""
    table = f"v{version}.{name}"
    properties = {**_PLAIN, **made.properties, "format-version": str(version)}
    own = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    files = f"{PLACE}/files"
    try:
        spark.sql(
            f"CREATE TABLE lake.{table} ({made.columns}) USING iceberg {made.layout} "
            f"TBLPROPERTIES ({own})"
        )
        for step in made.statements:
            if isinstance(step, tuple):
                STEPS[step[0]](spark, table, *step[1:])
                continue
            ids = snapshots(spark, table)
            first = str(ids[0]) if ids else ""
            named = {"t": f"lake.{table}", "n": table, "own": own, "files": files}
            spark.sql(step.format(first_snapshot=first, **named))
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    return None


def snapshots(spark: SparkSession, table: str) -> list[int]:
    """Ids of a table's snapshots, from the first on."""
    of = f"lake.{table}.snapshots"
    found = spark.sql(f"SELECT snapshot_id FROM {of} ORDER BY committed_at").collect()
    return [row[0] for row in found]


def read(spark: SparkSession, table: str) -> dict[str, Any]:
    """The rows of a table as JSON, and its snapshots."""
    options = ", ".join(f"'{name}', \"{value}\"" for name, value in FORMATS.items())
    of = f"to_json(struct(*), map({options}))"
    rows = spark.sql(f"SELECT {of} FROM lake.{table} ORDER BY k").collect()
    return {"rows": [json.loads(row[0]) for row in rows], "snapshots": snapshots(spark, table)}


def _table(spark: SparkSession, table: str) -> Any:
    of: Any = spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    return of, of.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{table}")


def add_uuid(spark: SparkSession, table: str, column: str) -> None:
    """Add a column of UUIDs."""
    of, found = _table(spark, table)
    found.updateSchema().addColumn(column, of.types.Types.UUIDType.get()).commit()


def add_default(spark: SparkSession, table: str, column: str) -> None:
    """Add a column with an initial default."""
    of, found = _table(spark, table)
    seven = of.expressions.Literal.of(7)
    kind = of.types.Types.IntegerType.get()
    found.updateSchema().addColumn(column, kind, None, seven).commit()


def without_list(_: SparkSession, table: str) -> None:
    """Let snapshots name their manifests one by one, as the first versions of Iceberg did."""
    folder = PLACE / table.replace(".", "/") / "metadata"
    number = int((folder / "version-hint.text").read_text())
    document = json.loads((folder / f"v{number}.metadata.json").read_text())
    for snapshot in document["snapshots"]:
        with Path(snapshot.pop("manifest-list").removeprefix("file:")).open("rb") as content:
            snapshot["manifests"] = [each["manifest_path"] for each in fastavro.reader(content)]
    (folder / f"v{number + 1}.metadata.json").write_text(json.dumps(document))
    (folder / "version-hint.text").write_text(str(number + 1))
    # Hadoop's checksum of what it was.
    (folder / ".version-hint.text.crc").unlink()


def delete_by_values(spark: SparkSession, table: str, *keys: str) -> None:
    """Commit a file of equality deletes, such as Flink writes; Spark writes none."""
    of, found = _table(spark, table)
    key = pa.field("k", pa.int64(), metadata={"PARQUET:field_id": "1"})
    path = PLACE / table.replace(".", "/") / "data" / "equality-deletes.parquet"
    pq.write_table(
        pa.table([[int(each) for each in keys]], pa.schema([key])), path, compression="none"
    )
    gateway = spark._sc._gateway
    assert gateway is not None
    ids = gateway.new_array(gateway.jvm.int, 1)
    ids[0] = 1
    builder = of.FileMetadata.deleteFileBuilder(found.spec()).ofEqualityDeletes(ids)
    builder = builder.withPath(f"file:{path}").withFormat("parquet").withRecordCount(len(keys))
    deletes = builder.withFileSizeInBytes(path.stat().st_size).build()
    found.newRowDelta().addDeletes(deletes).commit()


STEPS: dict[str, Callable[..., None]] = {
    "add_uuid": add_uuid,
    "add_default": add_default,
    "without_list": without_list,
    "delete_by_values": delete_by_values,
}


def plain_avro(file: Path) -> bytes:
    """The content of a file of Avro without compression."""
    out = io.BytesIO()
    with file.open("rb") as content:
        reader = fastavro.reader(content)
        more = {name: text for name, text in reader.metadata.items() if "avro." not in name}
        fastavro.writer(out, reader.writer_schema, list(reader), codec="null", metadata=more)
    return out.getvalue()


def main() -> None:
    """Make all tables, and pack them."""
    shutil.rmtree(PLACE, ignore_errors=True)
    spark = session()
    frame = spark.sql("SELECT id AS k, timestamp'2024-01-01' AS at, 'x' AS v FROM range(3)")
    frame.write.partitionBy("v").parquet(f"{PLACE}/files")
    more: dict[int, dict[str, Made]] = {1: FIRST, 2: SECOND, 3: THIRD}
    failed, found = {}, {}
    for version in (1, 2, 3):
        spark.sql(f"CREATE NAMESPACE lake.v{version}")
        for name, made in {**TABLES, **more[version]}.items():
            why = make(spark, made, name, version)
            if why is not None:
                failed[f"v{version}/{name}"] = why
        for row in spark.sql(f"SHOW TABLES IN lake.v{version}").collect():
            if f"v{version}/{row.tableName}" not in failed:
                found[f"v{version}/{row.tableName}"] = read(spark, f"v{version}.{row.tableName}")
    print(json.dumps(failed, indent=1))  # noqa: T201 - for whoever makes them
    pack(found, failed)


def pack(found: dict[str, Any], failed: Collection[str]) -> None:
    """Pack the rows of all tables, and their files."""
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        add(archive, "rows.json", json.dumps(found).encode())
        for file in sorted(PLACE.rglob("*")):
            inside = file.relative_to(PLACE)
            is_kept = "/".join(inside.parts[:2]) not in failed and file.suffix != ".crc"
            if file.is_file() and is_kept:
                is_manifest = "metadata" in inside.parts and file.suffix == ".avro"
                add(archive, str(inside), plain_avro(file) if is_manifest else file.read_bytes())


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file to the archive."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


if __name__ == "__main__":
    main()
