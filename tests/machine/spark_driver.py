"""A driver with Spark: the job's own code, in a thread of this process and in its session."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from hybrid_testing.chain import QUICK
from sources.config.loader import load_pipeline
from sources.errors import HybridError
from sources.planning.approval import require_approved
from sources.planning.context import PipelineContext
from spark_jobs.inside.driver.pipeline_run import PipelineRun
from spark_jobs.run_state.driver_lock import QueryLock
from tests.machine.drivers import NO_PROCESS


class SparkMachine:
    """Starts drivers in one Spark session.

    Args:
        spark: The session.

    Attributes:
        kills: How many drivers were killed at a write; here they are killed by a rule only.
    """

    kills = 0

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def start(self, pipeline: Path, sources: list[str], launch_id: str, lock: int) -> SparkDriver:
        """Start a driver in a thread of its own."""
        return SparkDriver(self._spark, pipeline, sources, launch_id, lock)


class SparkDriver:
    """One launch of the job."""

    def __init__(
        self, spark: SparkSession, pipeline: Path, sources: list[str], launch_id: str, lock: int
    ) -> None:
        self.pid = NO_PROCESS
        self._spark = spark
        self._pipeline = pipeline
        self._sources = sources
        self._launch_id = launch_id
        self._lock = lock
        self._stop = threading.Event()
        self._status: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else self._status

    def wait(self) -> int:
        self._thread.join()
        assert self._status is not None
        return self._status

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def kill(self) -> None:
        """End the queries under the driver, wherever they are; it fails without cleaning up."""
        deadline = threading.Event()
        while self._thread.is_alive():
            for query in self._spark.streams.active:
                with contextlib.suppress(Exception):
                    query.stop()
            self._spark.sparkContext.cancelAllJobs()
            self._stop.set()
            deadline.wait(0.05)

    def _run(self) -> None:
        try:
            # As `PipelineRun.run`, but for the lock's holder.
            context = PipelineContext.require(load_pipeline(self._pipeline))
            require_approved(context)
            with QueryLock(context.generation) as lock:
                run = PipelineRun(self._sources, self._launch_id, self._stop, beats=QUICK)
                self._status = run.read(context, lock)
        except HybridError:
            self._status = 2
        except BaseException:
            self._status = 1
        finally:
            os.close(self._lock)
