"""Benchmark: history whose Parquet files become files of the table, beside rewriting its rows.

    python -m benchmarks.copied --rows 10000000 --rounds 5

Both contenders are the project: with ``sink.copy_files`` and without. Measured is the whole
bounded run up to the end position, the plan included. Prints rows/s of each round and the ratio of
the medians.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.history import generate
from benchmarks.session import HERE, in_turns, report, session
from sources.config.loader import LoadedPipeline
from sources.config.pipeline import Pipeline
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.bounded_run import run_bounded
from spark_jobs.inside.driver.reports.reporter import Reporter

_COPIED = "copied"
_REWRITTEN = "rewritten"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    speeds: dict[str, list[float]] = {_COPIED: [], _REWRITTEN: []}
    with tempfile.TemporaryDirectory(prefix="hybrid-bench-") as name:
        folder = Path(name)
        generate(folder / "in", options.rows, "parquet")
        (folder / "unchanged.py").write_text("def rows(given):\n    return given\n")
        spark = session(_pipeline(folder, _REWRITTEN, 0), folder)
        for round_ in range(options.rounds + 1):  # the first one warms up
            for contender in in_turns([*speeds], round_):
                seconds = _read(spark, _pipeline(folder, contender, round_))
                if round_:
                    speeds[contender].append(options.rows / seconds)
        spark.stop()
    report("history-copied", speeds, _COPIED, options.rows)


def _read(spark: SparkSession, loaded: LoadedPipeline) -> float:
    """Plan a pipeline and read its history to the end; return the seconds, and remove the table."""
    started = time.monotonic()
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    reporter = Reporter(context, "history", "bench", None)
    run_bounded(spark, context, "history", reporter, threading.Event())
    seconds = time.monotonic() - started
    shutil.rmtree(loaded.target.root)
    return seconds


def _pipeline(folder: Path, contender: str, round_: int) -> LoadedPipeline:
    # Delta remembers the tables of a session by their paths.
    name = f"{contender}-{round_}"
    pipeline = Pipeline.model_validate(
        {
            "name": "bench",
            "event_time": "at",
            "sources": [
                {"name": "history", "type": "files", "path": "in/*.parquet", "format": "parquet"}
            ],
            "transform": "unchanged:rows",
            "sink": {
                "path": f"out-{name}",
                "mode": "append",
                "key": ["id"],
                "copy_files": contender == _COPIED,
            },
            "state": f"state-{name}",
            "spark": HERE,
        }
    )
    return LoadedPipeline(folder / "p.yaml", pipeline)


if __name__ == "__main__":
    main()
