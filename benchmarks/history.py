"""History to Delta: the project's planned reader against plain Spark, in turn, in one session.

    python -m benchmarks.history --format parquet --rows 50000000 --rounds 6

Plain Spark twice: its file stream, and a batch; for windows its stream twice, with its own store of
state and with the project's. Each time counts all from the first look at the files to the last
commit. Prints rows/s of each round and the ratios of the medians.
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
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.planning.plan import make_plan
from spark_jobs.query.planned_files import PlannedSource

FILES = 32
COLUMNS = {"id": "bigint", "at": "timestamp", "user": "string", "value": "double"}
_DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["parquet", "json", "csv"], default="parquet")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--windows", action="store_true", help="count by hour, as streams")
    parser.add_argument("--cluster", action="store_true", help="a master and two workers")
    options = parser.parse_args()
    form = options.format
    with (
        tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name,
        place(options.cluster, Path(name)) as where,
    ):
        folder = Path(name)
        _generate(folder / "in", options.rows, form)
        pipeline = partial(_pipeline, folder, form, where)
        spark = session(pipeline(0), folder)
        header = {"header": "true"} if form == "csv" else {}
        contenders: dict[str, Callable[[], DataFrame]] = {
            "project": partial(_planned, spark, pipeline, count()),
            "stream": lambda: (
                spark.readStream.schema(_DDL)
                .options(**header)
                .option("maxFilesPerTrigger", 1000)
                .format(form)
                .load(f"{folder}/in")
            ),
            "batch": lambda: (
                spark.read.schema(_DDL).options(**header).format(form).load(f"{folder}/in")
            ),
        }
        if options.windows:
            del contenders["batch"]  # it has no watermark
            stream = contenders["stream"]
            contenders = {
                "project": partial(_by_hour, contenders["project"], spark, ROCKSDB),
                "stream": partial(_by_hour, stream, spark, IN_MEMORY),
                "stream with RocksDB": partial(_by_hour, stream, spark, ROCKSDB),
            }
        speeds = race(contenders, options.rounds, options.rows, folder / "out")
        spark.stop()
    name = f"history-{form}{'-windows' * options.windows}{'-cluster' * options.cluster}"
    report(name, speeds, "project", options.rows)


def _by_hour(read: Callable[[], DataFrame], spark: SparkSession, store: str) -> DataFrame:
    spark.conf.set(STORE, store)
    rows = read().withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour"))
    return rows.agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def _generate(folder: Path, rows: int, form: str) -> None:
    folder.mkdir()
    each = rows // FILES
    users = pa.array([f"user{n}" for n in range(1000)])
    for at in range(FILES):
        ids = np.arange(at * each, (at + 1) * each)
        table = pa.table(
            {
                "id": ids,
                "at": pa.array(ids * 1_000_000).cast(pa.timestamp("us", "UTC")),
                "user": users.take(pa.array(ids % 1000)),
                "value": ids * 0.5,
            }
        )
        path = folder / f"{at:03}.{form}"
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
    """History alone, with a state of its own for each round."""
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
    loaded = pipeline(next(rounds))
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    plan = make_plan(loaded).files_of(source.name)
    generation, declared = loaded.require_generation(), loaded.pipeline
    planned = PlannedSource(source, [plan], generation, declared.event_time, declared.stores)
    planned.require_unchanged()
    planned.prepare()
    return planned.stream(spark)


if __name__ == "__main__":
    main()
