"""A Spark session that reads and writes a bucket of a local S3 server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.jvm.storage_jar import CONF, use_own_classes
from tests.services.s3_server import LOGIN


def session_on_s3(
    spark: SparkSession, endpoint: str, bucket: str, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of all tests, as a query on a state in S3 has it.

    Hadoop's client keeps a connection for each bucket, so no other module may use one of this name.

    Args:
        settings: Further settings of Hadoop's client, without ``fs.s3a.``.
    """
    context: Any = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    for name, value in {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": LOGIN["AWS_ACCESS_KEY_ID"],
        "secret.key": LOGIN["AWS_SECRET_ACCESS_KEY"],
        **(settings or {}),
    }.items():
        hadoop.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    use_own_classes(spark)
    made = spark.newSession()
    for name, value in CONF.items():
        made.conf.set(name, value)
        hadoop.set(name.removeprefix("spark.hadoop."), value)
    return made
