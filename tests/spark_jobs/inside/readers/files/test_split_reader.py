"""Splits become the rows of their files, inside the tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sources.config.source.event_time import EventTime
from sources.config.source.file_source import FileSource
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.inside.readers.files.split_reader import PLACES, split_reader
from spark_jobs.inside.readers.files.staged_outside_rows import BOUNDS

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
MINUTE_US = 60_000_000


def test_the_rows_of_an_interval_of_arrival_have_a_file_and_no_number(tmp_path: Path) -> None:
    times = [BEGIN + timedelta(seconds=second) for second in (0, 59, 60, 200)]
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "at": times}, schema), path)
    source = FileSource.model_validate(
        {
            "type": "files",
            "name": "history",
            "path": str(path),
            "format": "parquet",
            "partitions": {"day": "string"},
            "order": {"arrival": "at", "every": "1 min"},
        }
    )
    size = path.stat().st_size
    split = {"path": str(path), "offset": 0, "length": 1, "size": size, "partition": "day=monday"}
    bounds = dict(zip(BOUNDS.names, (0, BEGIN_US + 10 * MINUTE_US), strict=True))
    splits = [
        {**split, **bounds, "arrived_from": BEGIN_US + MINUTE_US * n, "length": int(n != 1)}
        for n in (0, 1, 3)
    ]
    columns = pa.schema([*schema, ("day", pa.string()), *PLACES])
    read = split_reader(columns, source, EventTime(column="at"), Stores(S3Settings()))
    rows = [
        tuple(row.values())
        for batch in read(iter([pa.RecordBatch.from_pylist(splits)]))
        for row in batch.to_pylist()
    ]
    file = str(path)
    # Of the interval without bytes nothing is read.
    assert rows == [
        (0, times[0], "monday", file, None),
        (1, times[1], "monday", file, None),
        (3, times[3], "monday", file, None),
    ]
