"""The run of a bounded source in a generation that computes only changed columns."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sources.planning.context import PipelineContext
from spark_jobs.inside.changed_columns.run import compute_changed_columns
from spark_jobs.inside.driver.reports.reporter import Reporter


def run_changed_columns(
    spark: SparkSession, context: PipelineContext, reporter: Reporter, stop: threading.Event
) -> bool:
    """Make a generation's table from the serving one, with a heartbeat each second.

    All bounded sources have ended then.

    Args:
        spark: The Spark session.
        context: The generation.
        reporter: Writer of the run's heartbeat.
        stop: Event that is set to stop the run before its end.

    Returns:
        Whether it is done; False if it was stopped.

    Raises:
        HybridError: As :func:`spark_jobs.inside.changed_columns.run.compute_changed_columns`.
    """
    with reporter.at_work():
        reporter.update(state="running", ui_url=spark.sparkContext.uiWebUrl)
        is_done = compute_changed_columns(spark, context, reporter.listeners.log, stop)
    reporter.ended("finished" if is_done else "stopped")
    return is_done
