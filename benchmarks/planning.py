"""Planning at scale: what a plan of many Parquet files costs, and how that grows.

    python -m benchmarks.planning --files 10000 100000

Each size runs in a process of its own, so that its peak of memory is its own.
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
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.files.splits import list_splits
from sources.planning.file_plan import keep_splits, plan_files, read_splits
from sources.storage.listing import find_files

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_KINDS = 1000  # distinct contents; the files are copies of these
_FOLDERS = 100


def main() -> None:
    """Run the benchmark, one process a size."""
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
    """``count`` small files in folders; contents differ in their times."""
    kinds = []
    for at in range(min(_KINDS, count)):
        path = folder / "kind.parquet"
        moment = _BEGIN + timedelta(minutes=at)
        table = pa.table(
            {
                "id": pa.array([at], pa.int64()),
                "at": pa.array([moment], pa.timestamp("us", "UTC")),
                "value": [at * 0.5],
            }
        )
        pq.write_table(table, path, compression="none")
        kinds.append(path.read_bytes())
        path.unlink()
    for at in range(_FOLDERS):
        (folder / "in" / f"{at:03}").mkdir(parents=True)
    for at in range(count):
        path = folder / "in" / f"{at % _FOLDERS:03}" / f"{at:07}.parquet"
        path.write_bytes(kinds[at * len(kinds) // count])


def _measure(folder: Path) -> dict[str, float]:
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
    peak = max(resource.getrusage(who).ru_maxrss for who in _EVERYBODY)
    shutil.rmtree(folder / "state")
    return {
        "files": len(files),
        "list_s": round(listed - started, 2),
        "plan_s": round(planned - listed, 2),
        "plan_us_per_file": round((planned - listed) / len(files) * 1e6, 1),
        "read_plan_s": round(read - planned, 2),
        "peak_mib": round(peak / 1024),
    }


_EVERYBODY = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


if __name__ == "__main__":
    main()
