"""What the product and Spark's own reader make of the same files, row by row."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from hybrid_extensions.audit.run import audit
from hybrid_testing.chain import read_bounded
from orchestration.comparison.report import AuditReport
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.config.source.file_source import FileSource
from sources.planning.plan import make_plan
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.random_tables.columns import EVENT_TIME, KEY, Kind
from tests.random_tables.dialects import Dialect

CORRUPT = "_corrupt_record"
Rows = dict[int, dict[str, Any]]


class Written(NamedTuple):
    """A file of random rows.

    Attributes:
        path: The file.
        writer: The tool that wrote it.
        rows: What it was given.
    """

    path: Path
    writer: str
    rows: pa.Table

    def given(self) -> Rows:
        """The rows by their key; pandas has no other null than NaN for numbers."""
        found = by_key(self.rows)
        numbers = [each.name for each in self.rows.schema if pa.types.is_floating(each.type)]
        for row in found.values() if self.writer == "pandas" else []:
            row |= {name: None for name in numbers if row[name] == "NaN"}
        return found


def pipeline(folder: Path, dialect: Dialect, columns: Mapping[str, Kind]) -> LoadedPipeline:
    """A pipeline over the files in ``in``, whose table has the columns as they are.

    Args:
        folder: Folder of the pipeline.
        dialect: Dialect of the files.
        columns: Columns of the files.
    """
    source: dict[str, Any] = {"name": "h", "type": "files", "path": "in/*"}
    source |= {"format": dialect.format, **dialect.declared}
    if dialect.format in ("csv", "json"):
        source["schema"] = {name: kind.name for name, kind in columns.items()}
    document = {
        "name": "p",
        "event_time": EVENT_TIME,
        "sources": [source],
        "transform": "transforms:identity",
        "sink": {"path": "out", "mode": "append", "key": [KEY]},
        "state": "state",
    }
    (folder / "p.yaml").write_text(yaml.safe_dump(document, allow_unicode=True))
    (folder / "transforms.py").write_text("def identity(rows):\n    return rows\n")
    return load_pipeline(folder / "p.yaml")


def by_product(spark: SparkSession, loaded: LoadedPipeline) -> Rows:
    """Plan, and read the rows as a run does.

    Args:
        spark: The session.
        loaded: The pipeline.

    Raises:
        HybridError: It is refused.
    """
    parts = make_plan(loaded).files
    (source,), generation = loaded.pipeline.sources, loaded.require_generation()
    assert isinstance(source, FileSource)
    declared = loaded.pipeline
    planned = PlannedSource(source, parts, generation, declared.event_time, declared.stores)
    planned.prepare()
    return rows_of(planned.batch(spark))


def by_chain(spark: SparkSession, loaded: LoadedPipeline) -> tuple[Rows, AuditReport]:
    """Plan, and read history into the target; its rows, and what the audit says.

    Args:
        spark: The session.
        loaded: The pipeline.

    Raises:
        HybridError: It is refused.
    """
    read_bounded(spark, loaded)
    return rows_of(spark.read.format("delta").load(loaded.locate("out"))), audit(loaded)


def by_spark(
    spark: SparkSession, dialect: Dialect, columns: Mapping[str, Kind], files: Sequence[Written]
) -> Rows | None:
    """Rows as Spark's own reader of the format reads them; None if it can't read the files.

    Args:
        spark: The session.
        dialect: Dialect of the files.
        columns: Columns of the files.
        files: The files.
    """
    quoted = [f"`{name.replace('`', '``')}` {kind.name}" for name, kind in columns.items()]
    if dialect.format in ("csv", "json"):
        quoted.append(f"`{CORRUPT}` string")
    reader = spark.read.format(dialect.format).options(**dialect.options)
    try:
        return rows_of(reader.schema(", ".join(quoted)).load([str(file.path) for file in files]))
    except (PySparkException, Py4JJavaError):
        return None


def rows_of(frame: DataFrame) -> Rows:
    """Rows of a frame by their key, with values that can be compared.

    Args:
        frame: The rows.
    """
    # Python has no years before 1 and after 9999, which damaged values may have.
    numbers = {"timestamp": F.unix_micros, "date": F.unix_date}
    seen = [
        numbers.get(field.dataType.typeName(), _same)(F.col(f"`{field.name}`")).alias(field.name)
        for field in frame.schema
    ]
    return by_key(frame.select(*seen).toArrow())


def _same(column: Column) -> Column:
    return column


def by_key(table: pa.Table) -> Rows:
    """Rows of a table by their key.

    Raises:
        AssertionError: Two rows have the same key.
    """
    found: Rows = {}
    for row in table.to_pylist():
        key = row[KEY]
        assert key not in found, f"row {key} is there twice"
        found[key] = {
            name: comparable(value, table.schema.field(name).type) for name, value in row.items()
        }
    return found


def comparable(value: Any, kind: pa.DataType) -> Any:
    """A value that equals another one exactly if it is the same; NaN and both zeros, too."""
    if value is None:
        return None
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        since = aware - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return str(value)
    if pa.types.is_map(kind):
        return sorted((key, comparable(item, kind.item_type)) for key, item in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [comparable(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: comparable(value[field.name], field.type) for field in kind}
    return value
