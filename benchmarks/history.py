"""History to Delta: the project's planned reader against plain Spark, in turn, in one session.

    python -m benchmarks.history --rows 5000000 --rounds 5

Prints rows/s of each round and the ratio of the medians; writes them to ``build/``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.session import report, session, write_to_delta
from sources.document import LoadedPipeline
from sources.file_source import FileSource
from sources.pipeline import Pipeline
from sources.plan import make_plan
from spark_jobs.planned import PlannedSource

FILES = 32


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        _generate(folder / "in", options.rows)
        spark = session(_pipeline(folder, 0), folder)
        contenders: dict[str, Callable[[int], DataFrame]] = {
            "project": lambda round_: _planned(spark, folder, round_),
            "plain": lambda _: (
                spark.readStream.schema(spark.read.parquet(f"{folder}/in").schema)
                .option("maxFilesPerTrigger", 1000)
                .parquet(f"{folder}/in")
            ),
        }
        speeds: dict[str, list[float]] = {name: [] for name in contenders}
        for round_ in range(options.rounds + 1):  # the first one warms up
            for contender, read in contenders.items():
                speed = options.rows / write_to_delta(
                    read(round_), folder / f"{contender}-{round_}"
                )
                if round_:
                    speeds[contender].append(speed)
        spark.stop()
    report("history", speeds, "project", "plain", options.rows)


def _generate(folder: Path, rows: int) -> None:
    folder.mkdir()
    each = rows // FILES
    for at in range(FILES):
        ids = pa.array(range(at * each, (at + 1) * each), pa.int64())
        micros = pa.array([n * 1_000_000 for n in range(at * each, (at + 1) * each)], pa.int64())
        columns = {
            "id": ids,
            "at": micros.cast(pa.timestamp("us", "UTC")),
            "user": pa.array([f"user{n % 1000}" for n in range(each)]),
            "value": pa.array([n * 0.5 for n in range(each)]),
        }
        pq.write_table(pa.table(columns), folder / f"{at:03}.parquet")


def _pipeline(folder: Path, round_: int) -> LoadedPipeline:
    """History alone, with a state of its own for each round."""
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [
                {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"}
            ],
            "transform": "none:none",
            "sink": {"path": "out", "mode": "append", "key": ["id"]},
            "state": f"state-{round_}",
            "spark": {"driver_memory": "4g", "conf": {"spark.ui.enabled": "false"}},
        }
    )
    return LoadedPipeline(folder / "bench.yaml", pipeline)


def _planned(spark: SparkSession, folder: Path, round_: int) -> DataFrame:
    loaded = _pipeline(folder, round_)
    (source,) = loaded.pipeline.sources
    assert isinstance(source, FileSource)
    plan = make_plan(loaded).files_of(source.name)
    generation, pipeline = loaded.require_generation(), loaded.pipeline
    planned = PlannedSource(source, [plan], generation, pipeline.event_time, pipeline.stores)
    planned.require_unchanged()
    planned.prepare()
    return planned.stream(spark)


if __name__ == "__main__":
    main()
