"""Benchmark: add a column to a table, computed on its own, against a full rerun.

    python -m benchmarks.new_column --format json --rows 10000000 --columns 20

Both are the run of a bounded source in one Spark session: a new generation of a pipeline over files
whose transform returns one column more, computed from two others. What both begin with (the plan,
and the process that compares the transforms) is not part of it. Both tables are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.record import record
from benchmarks.session import HERE, in_turns, session
from hybrid_testing.chain import read_bounded
from orchestration.changed_columns.begin import begin_changed_columns
from orchestration.changed_columns.saving import find_saving
from sources.changed_columns.documents import read_changed_columns
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.generations import begin, discard
from sources.kept_definitions import keep_definition
from sources.planning.plan import make_plan
from sources.serving import target_of

FILES = 32
_BEGIN_US = 1_704_067_200_000_000
_BEFORE = "SELECT *, v0 + v1 AS total FROM input"
_AFTER = "SELECT *, v0 + v1 AS total, v0 * v1 AS product FROM input"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["parquet", "json"], default="json")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument(
        "--columns", type=int, default=20, help="numbers in a row, besides key and time"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        _generate(folder / "in", options.rows, options.columns, options.format)
        _declare(folder, options.format, options.columns, _BEFORE)
        loaded = load_pipeline(folder / "events.yaml")
        spark = session(loaded, folder)
        read_bounded(spark, loaded)
        keep_definition(loaded, loaded.require_generation())
        _declare(folder, options.format, options.columns, _AFTER)
        loaded = load_pipeline(folder / "events.yaml")
        result = _measure(spark, loaded, options.rounds)
        spark.stop()
    result = {"rows": options.rows, "format": options.format, "columns": options.columns, **result}
    record(f"new-column-{options.format}", result)
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")


def _measure(spark: SparkSession, loaded: LoadedPipeline, rounds: int) -> dict[str, Any]:
    """Return the seconds of both ways by round, after one round that warms up."""
    ways: dict[str, Callable[[LoadedPipeline], object]] = {
        "full rerun": begin,
        "only the new column": begin_changed_columns,
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sums: dict[str, tuple[Any, ...]] = {}
    share = 0.0
    for round_ in range(rounds + 1):
        for way in in_turns(list(ways), round_):
            ways[way](loaded)
            plan, generation = make_plan(loaded), loaded.require_generation()
            if (made := read_changed_columns(generation)) is not None:
                share = find_saving(loaded, generation, made, plan).share
            started = time.monotonic()
            read_bounded(spark, loaded)
            if round_:
                seconds[way].append(round(time.monotonic() - started, 2))
            sums[way] = _sums(target_of(loaded, generation.name).url)
            discard(loaded)
    if len(set(sums.values())) != 1:
        message = f"The tables differ: {sums}"
        raise AssertionError(message)
    full, only = (statistics.median(seconds[way]) for way in ways)
    return {"seconds": seconds, "ratio": round(only / full, 3), "planned share": round(share, 3)}


def _sums(table: str) -> tuple[Any, ...]:
    """Return the number of rows of a table, and sums over rows of all columns of numbers."""
    files = DeltaTable(table).file_uris()
    query = (
        'SELECT count(*), sum(id), sum(epoch_us("at")::HUGEINT), '
        "sum(hash(id, v0, v1, total, product)::HUGEINT) FROM read_parquet($files)"
    )
    with duckdb.connect() as connection:
        found = connection.execute(query, {"files": files}).fetchone()
    return () if found is None else found


def _generate(folder: Path, rows: int, columns: int, form: str) -> None:
    """Write files of rows, one second of event time apart."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    size = rows // FILES
    for number in range(FILES):
        ids = np.arange(number * size, (number + 1) * size)
        values = {f"v{n}": chance.integers(0, 10_000, size) / 8 for n in range(columns)}
        at = pa.array(_BEGIN_US + ids * 1_000_000).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"id": ids, "at": at, **values})
        path = folder / f"{number:03}.{form}"
        if form == "parquet":
            pq.write_table(table, path)
            continue
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("events", table)
            shown = '* REPLACE (strftime("at", \'%Y-%m-%dT%H:%M:%SZ\') AS "at")'
            connection.execute(f"COPY (SELECT {shown} FROM events) TO '{path}' (FORMAT json)")


def _declare(folder: Path, form: str, columns: int, query: str) -> None:
    """Write the pipeline's file and its transform."""
    schema = {"id": "bigint", "at": "timestamp", **{f"v{n}": "double" for n in range(columns)}}
    source = {"type": "files", "name": "history", "format": form, "path": f"in/*.{form}"}
    document = {
        "name": "events",
        "event_time": "at",
        "key": ["id"],
        "sources": [source if form == "parquet" else {**source, "schema": schema}],
        "transform": {"sql": "transform.sql"},
        "sink": {"path": "out", "mode": "append", "key": ["id"]},
        "state": "state",
        "spark": HERE,
    }
    (folder / "events.yaml").write_text(yaml.safe_dump(document))
    (folder / "transform.sql").write_text(query)


if __name__ == "__main__":
    main()
