"""All bounded sources of a pipeline read in a Spark session of this process, with hand-overs."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from sources.config.loader import LoadedPipeline
from sources.config.source.kafka_source import KafkaSource
from sources.errors import RunError
from sources.hand_over import hand_over
from sources.hybrid import Boundedness
from sources.planning.context import PipelineContext
from sources.planning.plan import make_plan
from spark_jobs.inside.driver.bounded_run import FINISHED, run_bounded
from spark_jobs.inside.driver.reports.reporter import Beats, Reporter

QUICK = Beats(every_s=0.1)
"""Ten looks at a query each second, since the few rows of a test are read sooner than in one."""


def read_bounded(spark: SparkSession, loaded: LoadedPipeline) -> None:
    """Plan, and read all bounded sources one after the other; a topic after its hand-over.

    The query is started anew for each source, on the same checkpoint, as in a pipeline's runs. It
    blocks until all are read. A topic that is followed without end is not read.

    Args:
        spark: The session.
        loaded: The pipeline.

    Raises:
        HybridError: As :func:`sources.planning.plan.make_plan` and
            :func:`spark_jobs.inside.driver.bounded_run.run_bounded`.
        StreamingQueryException: A query failed in Spark.
    """
    make_plan(loaded)
    context = PipelineContext.require(loaded)
    for source in loaded.pipeline.hybrid_source().sources:
        if source.boundedness is not Boundedness.BOUNDED:
            continue
        if source.name != loaded.pipeline.run_of(source.name):
            continue
        if isinstance(source, KafkaSource):
            hand_over(context, source)
        reporter = Reporter(context, source.name, "test", None, beats=QUICK)
        if run_bounded(spark, context, source.name, reporter, threading.Event()) != FINISHED:
            message = f"Source `{source.name}` was not read to its end."
            raise RunError(message, "Repeat the test.", source=source.name)
