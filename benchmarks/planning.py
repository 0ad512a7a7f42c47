"""Benchmark: time and memory to plan Parquet files, by their number.

    python -m benchmarks.planning --files 10000 100000

Each size runs in a separate process, so that its peak memory can be measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import record
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.files.listing.source_listing import list_splits
from sources.planning.files.file_plan import keep_splits, plan_files, read_splits
from sources.storage.listing import find_files

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_CONTENTS = 1000  # distinct contents; the files are copies of these
_FOLDERS = 100


def main() -> None:
    """Run the benchmark with the options of the command line, one process for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        sys.stdout.write(json.dumps(_measure(options.one)) + "\n")
        return
    results = []
    for count in options.files:
        with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
            _generate(Path(name), count)
            command = [sys.executable, "-m", "benchmarks.planning", "--one", name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        result = json.loads(output.splitlines()[-1])
        results.append(result)
        figures = ", ".join(f"{key} {value:,}" for key, value in result.items())
        sys.stdout.write(f"{figures}\n")
    record("planning", results)


def _generate(folder: Path, count: int) -> None:
    """Write a number of small Parquet files in folders; contents differ in their event times."""
    contents = []
    for number in range(min(_CONTENTS, count)):
        path = folder / "content.parquet"
        moment = _BEGIN + timedelta(minutes=number)
        table = pa.table(
            {
                "id": pa.array([number], pa.int64()),
                "at": pa.array([moment], pa.timestamp("us", "UTC")),
                "value": [number * 0.5],
            }
        )
        pq.write_table(table, path, compression="none")
        contents.append(path.read_bytes())
        path.unlink()
    for number in range(_FOLDERS):
        (folder / "in" / f"{number:03}").mkdir(parents=True)
    for number in range(count):
        path = folder / "in" / f"{number % _FOLDERS:03}" / f"{number:07}.parquet"
        path.write_bytes(contents[number * len(contents) // count])


def _measure(folder: Path) -> dict[str, float]:
    """List, plan and store the files of a folder, and read the plan; return times and memory."""
    source = FileSource.model_validate(
        {"type": "files", "name": "history", "path": "in/**/*.parquet", "format": "parquet"}
    )
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [source],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": "state",
        }
    )
    loaded = LoadedPipeline(folder / "bench.yaml", pipeline)
    started = time.monotonic()
    files = find_files(source.name, source.patterns, folder, pipeline.stores)
    listed = time.monotonic()
    listing = list_splits(source, "at", files, pipeline.stores)
    plan, _ = plan_files(loaded, source, listing)
    generation = loaded.open_generation(create=True)
    assert generation is not None
    keep_splits(plan, listing, generation)
    planned = time.monotonic()
    assert read_splits(plan, generation).num_rows == len(files)
    read = time.monotonic()
    peak = max(resource.getrusage(who).ru_maxrss for who in _PROCESSES)
    shutil.rmtree(folder / "state")
    return {
        "files": len(files),
        "list_s": round(listed - started, 2),
        "plan_s": round(planned - listed, 2),
        "plan_us_per_file": round((planned - listed) / len(files) * 1e6, 1),
        "read_plan_s": round(read - planned, 2),
        "peak_mib": round(peak / 1024),
    }


_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


if __name__ == "__main__":
    main()
