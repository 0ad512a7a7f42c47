"""Benchmark: read history files into a Delta table, by the project and by plain Spark.

    python -m benchmarks.history --format parquet --rows 50000000 --rounds 6

Plain Spark runs as a file stream and as a batch. With ``--windows`` it runs as a stream twice: with
Spark's default state store, and with RocksDB, which the project uses. Measured from the first
listing of the files to the last commit. Prints rows/s of each round and the ratios of the medians.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from benchmarks.session import IN_MEMORY, ROCKSDB, STORE, place, race, report, session
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.config.source.file_source import FileSource
from sources.planning.plan import make_plan
from spark_jobs.inside.readers.files.planned_files import PlannedSource

FILES = 32
_BEGIN_US = 1_704_067_200_000_000
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["parquet", "json", "csv"], default="parquet")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--windows", action="store_true", help="count rows by hour, as streams")
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="run on a standalone cluster: a master and two workers",
    )
    options = parser.parse_args()
    form = options.format
    with (
        tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name,
        place(options.cluster, Path(name)) as where,
    ):
        folder = Path(name)
        generate(folder / "in", options.rows, form)
        pipeline = partial(_pipeline, folder, form, where)
        spark = session(pipeline(0), folder)
        header = {"header": "true"} if form == "csv" else {}
        contenders: dict[str, Callable[[], DataFrame]] = {
            "project": partial(_planned, spark, pipeline, count()),
            "Spark stream": lambda: (
                spark.readStream.schema(_DDL)
                .options(**header)
                .option("maxFilesPerTrigger", 1000)
                .format(form)
                .load(f"{folder}/in")
            ),
            "Spark batch": lambda: (
                spark.read.schema(_DDL).options(**header).format(form).load(f"{folder}/in")
            ),
        }
        if options.windows:
            del contenders["Spark batch"]  # a batch has no watermark
            stream = contenders["Spark stream"]
            contenders = {
                "project": partial(_by_hour, contenders["project"], spark, ROCKSDB),
                "Spark stream": partial(_by_hour, stream, spark, IN_MEMORY),
                "Spark stream with RocksDB": partial(_by_hour, stream, spark, ROCKSDB),
            }
        speeds = race(contenders, options.rounds, options.rows, folder / "out")
        spark.stop()
    name = f"history-{form}{'-windows' * options.windows}{'-cluster' * options.cluster}"
    report(name, speeds, "project", options.rows)


def _by_hour(read: Callable[[], DataFrame], spark: SparkSession, store: str) -> DataFrame:
    """Return counts and sums by hour of event time, computed with a class of state store."""
    spark.conf.set(STORE, store)
    rows = read().withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour"))
    return rows.agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def generate(folder: Path, rows: int, form: str) -> None:
    """Write files of rows, one second of event time apart, in Parquet, JSON lines or CSV."""
    folder.mkdir()
    rows_per_file = rows // FILES
    users = pa.array([f"user{n}" for n in range(1000)])
    for number in range(FILES):
        ids = np.arange(number * rows_per_file, (number + 1) * rows_per_file)
        table = pa.table(
            {
                "id": ids,
                "at": pa.array(_BEGIN_US + ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
                "user": users.take(pa.array(ids % 1000)),
                "value": ids * 0.5,
            }
        )
        path = folder / f"{number:03}.{form}"
        if form == "parquet":
            pq.write_table(table, path)
            continue
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("events", table)
            time = 'strftime("at", \'%Y-%m-%dT%H:%M:%SZ\') AS "at"'
            query = f'SELECT id, {time}, "user", value FROM events'
            connection.execute(f"COPY ({query}) TO '{path}' (FORMAT {form})")


def _pipeline(folder: Path, form: str, where: Mapping[str, Any], round_: int) -> LoadedPipeline:
    """Return a pipeline of the files alone, with a separate state folder for each round."""
    source = {"type": "files", "name": "history", "path": "in", "format": form}
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [{**source, "schema": COLUMNS}],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": f"state-{round_}",
            "spark": where,
        }
    )
    return LoadedPipeline(folder / "bench.yaml", pipeline)


def _planned(
    spark: SparkSession, pipeline: Callable[[int], LoadedPipeline], rounds: Iterator[int]
) -> DataFrame:
    """Plan the files of the next round's pipeline, and return the stream of their rows."""
    return planned(spark, pipeline(next(rounds)))


def planned(spark: SparkSession, loaded: LoadedPipeline) -> DataFrame:
    """Plan the files of a pipeline, and return the stream of their rows."""
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    plan = make_plan(loaded).files_of(source.name)
    generation, declared = loaded.require_generation(), loaded.pipeline
    files = PlannedSource(source, [plan], generation, declared.event_time, declared.stores)
    files.require_unchanged()
    files.prepare()
    return files.stream(spark)


if __name__ == "__main__":
    main()
