"""pytest's fixture `hybrid_spark`: one Spark session for all tests, found by its entry point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def hybrid_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session for all tests of transforms, from ``local_session``.

    Raises:
        InputError: Java is missing or too old, or a jar can't be downloaded.
    """
    # pytest loads the plugin wherever this project is installed, also for tests without Spark.
    from hybrid_testing.session import local_session  # noqa: PLC0415

    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
