"""In place of ``spark-submit`` for a shared driver: the driver's own code, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from pyspark.sql import SparkSession

from hybrid_extensions.shared_drivers.requests import RunRequest
from hybrid_extensions.shared_drivers.spark import driver as shared_driver
from sources.config.loader import load_pipeline
from sources.planning.context import PipelineContext
from spark_jobs import shared_job
from spark_jobs.inside.driver.reports.reporter import Reporter
from spark_jobs.run_state.driver_lock import QueryLock

BROKEN = "BROKEN"
"""A file of this name next to the pipeline's makes the driver end at its start."""
DEAF = "DEAF"
"""A file of this name next to the pipeline's makes its run ignore that it is to stop."""


def run(
    request: RunRequest, stop: threading.Event, application: Callable[[], SparkSession]
) -> None:
    """Hold the query lock and report, until told to stop."""
    application()
    loaded = load_pipeline(Path(request.file), request.environment)
    generation = loaded.require_generation()
    with QueryLock(generation, request.launch_id) as lock:
        context = PipelineContext(loaded, generation)
        reporter = Reporter(context, request.sources[0], request.launch_id, None, lock)
        reporter.update(state="running", idle=True)
        sys.stderr.write(f"{request.pipeline} reads {request.sources[0]}\n")
        stop.wait()
        while (loaded.folder / DEAF).exists():
            stop.wait(0.05)
            threading.Event().wait(0.05)
        reporter.ended("stopped")


def no_spark() -> SparkSession:
    """An application that never stops by itself."""
    running = SimpleNamespace(isStopped=lambda: False)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: running))
    spark: Any = SimpleNamespace(sparkContext=context, stop=lambda: None)
    return cast("SparkSession", spark)


def main(words: list[str]) -> int:
    """Start the driver as a child, as the JVM of ``spark-submit`` does."""
    if words[0] != "driver":
        # Like a JVM: it holds the driver's lock, and its child does not.
        given = words[words.index("--folder") :]
        return subprocess.call([sys.executable, __file__, "driver", *given])
    if os.environ.get(BROKEN):
        sys.stderr.write("there is no such master\n")
        return 1
    shared_driver.IDLE_S = float(os.environ.get("IDLE_S", "60"))
    with patch.multiple(shared_driver, run_pipeline=run, only_session=no_spark):
        return shared_job.main(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
