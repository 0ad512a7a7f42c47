"""Spark session for tests on this machine: Delta, Kafka, UTC, quick starts; which one is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from sources.errors import InputError
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import require_java
from spark_jobs.launch.submission import spark_properties

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


@contextmanager
def local_session(
    scratch: Path, conf: Mapping[str, str] | None = None, jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """Yield a Spark session for small tests; it is stopped when the ``with`` block ends.

    It has Spark's Kafka connector and Delta, UTC as its time zone, and settings by which a query
    over few rows starts as fast as it can. Its Python workers find the modules that this process
    finds. If this process has an active session, it is that one, with the properties that can still
    be set, and it is stopped all the same.

    Args:
        scratch: Folder for its temporary files.
        conf: Further Spark properties, which take precedence.
        jars: Further jars.

    Yields:
        The session.

    Raises:
        InputError: Java is missing or too old, or a jar can't be downloaded.
    """
    os.environ.setdefault("JAVA_HOME", str(require_java().resolve().parent.parent))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    log4j = (spark_properties.PACKAGE / "log4j2.properties").as_uri()
    every = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, [*resolve("spark"), *jars])),
        "spark.driver.defaultJavaOptions": (
            # The code of many queries is more than the 48 MB that such a JVM has by default.
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
        ),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.extensions": _EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists files in as many tasks; ten thousand, if nothing is said.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.ui.enabled": "false",
        **spark_properties.STATE_STORE,
        **spark_properties.TIMES,
        **spark_properties.WORKER_DAEMON,
        # Compiling a plan costs more than running it over a few thousand rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        **(conf or {}),
    }
    builder = SparkSession.builder.appName("tests")
    for name, value in every.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def require_session(given: SparkSession | None) -> SparkSession:
    """Return the session to test in: the given one, or the one that is active.

    Raises:
        InputError: There is none, or it lacks Delta or another time zone than UTC is set.
    """
    spark = given or SparkSession.getActiveSession()
    hint = (
        "Take the fixture `hybrid_spark`, or the session of `hybrid_testing.session.local_session`."
    )
    if spark is None:
        raise InputError("There is no Spark session to test the transform in.", hint)
    needed = {"spark.sql.extensions": _EXTENSION, "spark.sql.session.timeZone": "UTC"}
    for name, value in needed.items():
        if value not in str(spark.conf.get(name, "")):
            message = f"The Spark session lacks `{name}: {value}`, which runs of a pipeline have."
            raise InputError(message, hint, value=name)
    return spark
