"""Jar of this project's Kafka source: Spark's own, with micro-batches that end where a driver says.

The jar is part of the package, with its source in it. ``python -m spark_jobs.jvm.kafka_jar`` builds
it again, which needs a JDK.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sources.common.counting import counted
from sources.errors import InputError
from spark_jobs.jvm.own_jar import build_jar
from spark_jobs.jvm.spark_version import spark_home

SOURCE = Path(__file__).with_name("kafka")
JAR = SOURCE / "hybrid-kafka.jar"
PROVIDER = "hybridbackfill.kafka.LimitedKafka"
"""Name of the source, as Spark's ``format`` takes it."""
_PACKAGE = "hybridbackfill/kafka"


def require_jar() -> Path:
    """Return the path of the jar, which a query needs whose live partitions are aligned.

    Raises:
        InputError: The installed package lacks it.
    """
    if not JAR.exists():
        message = f"{JAR} is missing. Without it, partitions of a live topic can't be aligned."
        hint = "Install this package again; the jar is part of it."
        raise InputError(message, hint, file=str(JAR))
    return JAR


def class_path() -> list[str]:
    """Return the jars of Spark that the sources are compiled against."""
    return [f"{spark_home()}/jars/*"]


if __name__ == "__main__":
    JAR.write_bytes(build_jar(SOURCE, class_path(), _PACKAGE))
    sys.stdout.write(f"{JAR}: {counted(JAR.stat().st_size, 'byte')}\n")
