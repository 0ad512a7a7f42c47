"""A table as a run and its audit read it, without a chain: its plan and its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from pyspark.sql import SparkSession

from sources.config.loader import load_pipeline
from sources.config.source.file_source import FileSource
from sources.planning.files.file_plan import read_splits
from sources.planning.plan import make_plan
from spark_jobs.inside.readers.files.planned_files import PlannedSource
from tests.hybrid_extensions.audit.file_rows import read_by_audit

Rows = list[dict[str, Any]]


class Read(NamedTuple):
    """What became of a table.

    Attributes:
        run: Rows as Spark reads them by the plan.
        audit: Rows as the audit reads them.
        lowest, highest: Event times of the plan, in microseconds.
    """

    run: Rows
    audit: Rows
    lowest: int | None
    highest: int | None


def read_table(
    spark: SparkSession, folder: Path, event_time: str | dict[str, str] = "at", **source: Any
) -> Read:
    """Plan a pipeline with one source, and read it in both ways."""
    folder.mkdir()
    document = {
        "name": "p",
        "event_time": event_time,
        "sources": [{"type": "files", "name": "history", **source}],
        "transform": "t:rows",
        "sink": {"path": "out", "mode": "append", "key": ["k"]},
        "state": "state",
    }
    (folder / "p.yaml").write_text(yaml.safe_dump(document))
    loaded = load_pipeline(folder / "p.yaml")
    (declared,) = loaded.pipeline.sources
    assert isinstance(declared, FileSource)
    parts, generation = make_plan(loaded).files, loaded.require_generation()
    pipeline = loaded.pipeline
    planned = PlannedSource(declared, parts, generation, pipeline.event_time, pipeline.stores)
    planned.prepare()
    run = planned.batch(spark).toArrow()
    splits = read_splits(parts[0], generation)
    ends = [splits[name].to_pylist() for name in ("event_min_us", "event_max_us")]
    lows, highs = ([at for at in values if at is not None] for values in ends)
    audit = read_by_audit(loaded, folder / "copies")
    return Read(plain(run), plain(audit), min(lows, default=None), max(highs, default=None))


def plain(table: pa.Table) -> Rows:
    """Rows of a table by their key `k`, with all times in UTC and binary values as bytes."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", "UTC")
        if pa.types.is_fixed_size_binary(kind):
            kind = pa.binary()
        columns[name] = column.cast(kind)
    return sorted(pa.table(columns).to_pylist(), key=lambda row: int(row["k"]))
