"""One Spark session for the tests that run the job's code in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.storage_jar import CONF, LOG_STORE, require_jar
from spark_jobs.launch.submit import STATE_STORE


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Spark's Kafka connector and Delta."""
    scratch = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("JAVA_HOME", str(require_java().resolve().parent.parent))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    log4j = (Path(__file__).parents[2] / "spark_jobs" / "log4j2.properties").as_uri()
    conf = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(
            str(jar) for jar in (*resolve("spark"), *resolve("s3"), require_jar())
        ),
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists files in as many tasks; ten thousand, if nothing is said.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.ui.enabled": "false",
        **STATE_STORE,
        # Read once, when the session is made.
        LOG_STORE: CONF[LOG_STORE],
        # Compiling a plan costs more than running it over a few thousand rows; tests that launch
        # processes keep Spark's own way.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.appName("tests")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
