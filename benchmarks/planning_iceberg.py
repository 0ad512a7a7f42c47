"""Benchmark: time and memory to plan a snapshot of an Iceberg table, by its number of files.

    python -m benchmarks.planning_iceberg --files 10000 100000

The snapshot's manifests describe the files, so none is opened, and here none exists. Each size runs
in a separate process, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from benchmarks.record import record
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.files.listing.source_listing import list_source
from sources.planning.files.file_plan import keep_splits, plan_files

_BEGIN_US = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_MINUTE_US = 60_000_000
_ROWS = 1_000_000
_OF_COMMIT = 10_000
_COLUMNS = pa.schema(
    [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("value", pa.float64())]
)


def main() -> None:
    """Run the benchmark with the options of the command line, one process for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        sys.stdout.write(json.dumps(_measure(Path(options.one))) + "\n")
        return
    results = []
    for count in options.files:
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
            (Path(name) / "metadata.txt").write_text(_generate(Path(name), count))
            command = [sys.executable, "-m", "benchmarks.planning_iceberg", "--one", name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results.append(json.loads(output.splitlines()[-1]))
        sys.stdout.write(f"{json.dumps(results[-1])}\n")
    record("planning-iceberg", results)


def _generate(folder: Path, count: int) -> str:
    """Make a table whose snapshot describes a number of files; return its metadata file."""
    catalog = SqlCatalog(
        "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.events", _COLUMNS)
    for first in range(0, count, _OF_COMMIT):
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for number in range(first, min(first + _OF_COMMIT, count)):
                append.append_data_file(_file(table, number))
    return table.metadata_location.removeprefix("file://")


def _file(table: Table, number: int) -> DataFile:
    low = _BEGIN_US + number * _MINUTE_US
    bounds = {1: number, 2: low, 3: 0}, {1: number + 1, 2: low + _MINUTE_US, 3: 0}
    lower, upper = (
        {field: value.to_bytes(8, "little") for field, value in of.items()} for of in bounds
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{number:07}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=_ROWS,
        file_size_in_bytes=100_000_000,
        column_sizes={1: 8, 2: 8, 3: 8},
        value_counts=dict.fromkeys((1, 2, 3), _ROWS),
        null_value_counts=dict.fromkeys((1, 2, 3), 0),
        nan_value_counts={3: 0},
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=[4],
        sort_order_id=0,
        key_metadata=None,
        equality_ids=None,
        spec_id=0,
    )


def _measure(folder: Path) -> dict[str, float]:
    """List, plan and store the files of a snapshot; return times and memory."""
    path = (folder / "metadata.txt").read_text()
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [{"type": "files", "name": "history", "path": path, "format": "iceberg"}],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
        }
    )
    loaded = LoadedPipeline(folder / "bench.yaml", pipeline)
    source = pipeline.file_source("history")
    started = time.monotonic()
    listing = list_source(loaded, source)
    listed = time.monotonic()
    plan, _ = plan_files(loaded, source, listing)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    keep_splits(plan, listing, generation)
    planned = time.monotonic()
    return {
        "files": plan.splits,
        "list_s": round(listed - started, 2),
        "plan_s": round(planned - listed, 2),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    main()
