"""Jar of this project's Kafka source: Spark's own, with micro-batches that end where a driver says.

``python -m spark_jobs.jvm.kafka_jar`` builds it again, which needs a JDK.
"""

from __future__ import annotations

from pathlib import Path

from spark_jobs.jvm.own_jar import OwnJar
from spark_jobs.jvm.spark_version import spark_home

JAR = OwnJar(
    Path(__file__).with_name("kafka"),
    "hybrid-kafka.jar",
    "hybridbackfill/kafka",
    "Without it, partitions of a live topic can't be aligned.",
)
"""The jar, which a query needs whose live partitions are aligned."""
PROVIDER = "hybridbackfill.kafka.LimitedKafka"
"""Name of the source, as Spark's ``format`` takes it."""


def class_path() -> list[str]:
    """Return the jars of Spark that the sources are compiled against.

    Raises:
        InputError: ``SPARK_HOME`` is not set, and PySpark is not installed.
    """
    return [f"{spark_home()}/jars/*"]


if __name__ == "__main__":
    JAR.build(class_path())
