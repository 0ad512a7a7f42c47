"""The session that the tests of the whole project share, where teams have one of their own."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.e2e.conftest import spark as spark  # noqa: PLC0414 - the fixture


@pytest.fixture(scope="session")
def hybrid_spark(spark: SparkSession) -> SparkSession:
    """A process can't have two sessions with different jars."""
    return spark
