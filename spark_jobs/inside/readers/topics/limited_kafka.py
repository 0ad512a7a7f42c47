"""Spark's Kafka source with micro-batches that end where a function of this driver says.

All but the end of a micro-batch is Spark's own, also what is in the checkpoint: so a query may use
this source on a checkpoint that one without it has written, and the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sources.common.positions import Offsets, flatten, nest
from sources.errors import InputError
from spark_jobs.inside.errors.error_reports import ReportedError, report_of
from spark_jobs.jvm.kafka_jar import JAR, PROVIDER

Ends = Callable[[Offsets, Offsets], Offsets]
"""Function that gets the offsets at which a micro-batch begins and those at which the log ends, and
returns those at which the micro-batch ends, of all partitions of the latter."""


class _Function:
    """The function as the JVM calls it; an error reaches the driver with all of its fields."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def apply(self, start: str, latest: str) -> str:
        """Return the end offsets of a micro-batch, by its start and the log's ends, as JSON."""
        try:
            ends = self._ends(flatten(json.loads(start)), flatten(json.loads(latest)))
        except Exception as error:
            raise ReportedError(report_of(error)) from None
        return json.dumps(nest(ends))

    class Java:
        """What Py4J has to know."""

        implements = ("java.util.function.BinaryOperator",)


def limited_format(spark: SparkSession, name: str, ends: Ends) -> tuple[str, dict[str, str]]:
    """Return format and options of a Kafka stream whose micro-batches end where a function says.

    Only the driver needs the classes, so they are added to it alone, wherever it runs.

    Args:
        spark: The Spark session.
        name: Name of the function: one of the same name is replaced in streams that are made later.
        ends: The function, called before each micro-batch.

    Raises:
        InputError: The installed package lacks the jar, or this Spark takes no further classes.
    """
    jvm: Any = spark._jvm
    _add_classes(jvm)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm.hybridbackfill.kafka.LimitedKafka.register(name, _Function(ends))
    return PROVIDER, {"hybridlimit": name}


def _add_classes(jvm: Any) -> None:
    """Make the driver's JVM know the source, unless it does; `spark-submit` lets it."""
    jar = JAR.require()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(PROVIDER)
    except Py4JJavaError:
        try:
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        except Py4JError:
            message = (
                "Partitions can't be aligned: the driver's JVM takes no further classes. The query "
                "was not started."
            )
            hint = (
                "Remove `align` from the source, and use a longer delay of `withWatermark` if "
                "partitions are apart."
            )
            raise InputError(message, hint, field="align", file=str(jar)) from None
