"""One Spark session for the tests that run the job's code in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from hybrid_testing.session import local_session
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.storage_jar import CONF, JAR, LOG_STORE


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Spark's Kafka connector, Delta and the object stores with the S3 API."""
    # Delta reads its log store once, when the session is made.
    conf = {LOG_STORE: CONF[LOG_STORE]}
    jars = [*resolve("s3"), JAR.require()]
    with local_session(tmp_path_factory.mktemp("spark"), conf, jars) as session:
        yield session
