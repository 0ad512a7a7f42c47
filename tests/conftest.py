"""What tests of all rooms share: one real broker, HDFS and cluster of Spark for the session."""

from __future__ import annotations

import atexit
import gc
import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import settings

from sources.planning.transform_analysis import AnalysisRequest, TransformAnalysis
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests import sets
from tests.extensions import LACKING
from tests.properties import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hybrid_extensions.servers.azurite import LocalAzurite
    from hybrid_extensions.servers.connectors import Connectors
    from hybrid_extensions.servers.databases.mariadb import LocalMariaDb
    from hybrid_extensions.servers.databases.mysql import LocalMySql
    from hybrid_extensions.servers.databases.postgres import LocalPostgres
    from tests.services.standalone import Standalone

pytest_plugins = ["pytester"]
if "servers" not in LACKING:
    pytest_plugins.append("tests.missing_servers")


@pytest.fixture(autouse=True)
def _interrupts() -> None:
    """SIGINT interrupts a test and what it starts, and SIGTERM ends them.

    A shell in the background ignores SIGINT, and a driver's `main` that a test has called in this
    process handles both.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _plans_start_no_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans analyze no transform, which takes a JVM, except in tests marked `analysis`."""
    if request.node.get_closest_marker("analysis") is not None:
        return

    def analyze(_: TransformCheck, request: AnalysisRequest) -> TransformAnalysis:
        return TransformAnalysis(digest=request.digest, columns=[])

    monkeypatch.setattr(TransformCheck, "start", lambda _: None)
    monkeypatch.setattr(TransformCheck, "analyze", analyze)


@pytest.fixture(scope="session", autouse=True)
def _migrations_are_read_once() -> Iterator[None]:
    """Dagster reads the scripts of all its migrations for each instance that it creates."""
    read: dict[str | None, ScriptDirectory] = {}
    from_config = ScriptDirectory.from_config

    def once(config: Config) -> ScriptDirectory:
        folder = config.get_main_option("script_location")
        if folder not in read:
            read[folder] = from_config(config)
        return read[folder]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", once)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Spark's Kafka connector, Delta and the object stores with the S3 API."""
    from hybrid_testing.session import local_session
    from spark_jobs.jvm.jars import resolve
    from spark_jobs.jvm.storage_jar import CONF, JAR, LOG_STORE

    # Delta reads its log store once, when the session is made.
    conf = {LOG_STORE: CONF[LOG_STORE]}
    jars = [*resolve("s3"), JAR.require()]
    with local_session(tmp_path_factory.mktemp("spark"), conf, jars) as session:
        yield session


@pytest.fixture(scope="session")
def hybrid_spark(spark: SparkSession) -> SparkSession:
    """The same session: a process can't have two with different jars."""
    return spark


@pytest.fixture(scope="session")
def servers() -> str:
    """Address of a real Kafka broker."""
    from tests.services.shared import shared

    return shared().broker()


@pytest.fixture(scope="session")
def postgres() -> LocalPostgres:
    """A real PostgreSQL."""
    from tests.services.shared import shared_postgres

    return shared_postgres()


@pytest.fixture(scope="session")
def connect() -> Connectors:
    """Kafka Connect with Debezium."""
    from tests.services.shared import shared_connectors

    return shared_connectors("connect")


@pytest.fixture(scope="session")
def mariadb() -> LocalMariaDb:
    """A real MariaDB, whose client comparisons find."""
    from hybrid_extensions.servers.databases.mariadb import add_client_to_path
    from tests.services.shared import shared_mariadb

    add_client_to_path()
    return shared_mariadb()


@pytest.fixture(scope="session")
def connect_mariadb() -> Connectors:
    """Kafka Connect with Debezium for MariaDB, which needs jars of its own."""
    from tests.services.shared import shared_connectors

    return shared_connectors("connect-mariadb")


@pytest.fixture(scope="session")
def mysql() -> LocalMySql:
    """A real MySQL, whose transactions have GTIDs; comparisons run MariaDB's client."""
    from hybrid_extensions.servers.databases.mariadb import add_client_to_path
    from tests.services.shared import shared_mysql

    add_client_to_path()
    return shared_mysql()


@pytest.fixture(scope="session")
def connect_mysql() -> Connectors:
    """Kafka Connect with Debezium for MySQL."""
    from tests.services.shared import shared_connectors

    return shared_connectors("connect-mysql")


@pytest.fixture(scope="session")
def namenode() -> str:
    """Address of a real HDFS."""
    from tests.services.shared import shared

    return shared().namenode()


@pytest.fixture(scope="session")
def azurite() -> Iterator[LocalAzurite]:
    """A real server with the API of Azure Blob Storage."""
    from hybrid_extensions.servers.azurite import LocalAzurite

    with LocalAzurite() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A real standalone cluster of Spark."""
    from tests.services.standalone import standalone

    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage among what the tests create, not among all modules and collected tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # At the end, native libraries report objects that nothing has freed.
        atexit.register(gc.unfreeze)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests by the sets that they belong to."""
    config.stash[sets.COLLECTED] = list(items)
    sets.mark(items)
    if (until := sets.rest_until()) is not None:
        items[:] = sets.rotated(items, int(until // 86_400))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test for which the run has no time, nor its fixtures."""
    sets.skip_if_over(item)


def pytest_configure(config: pytest.Config) -> None:
    """Keep servers for this run, in the process that the workers are children of."""
    settings.register_profile("default of this project", examples(100))
    settings.load_profile("default of this project")
    if not hasattr(config, "workerinput") and "servers" not in LACKING:
        from tests.services.shared import keeper

        kept = ExitStack()
        kept.enter_context(keeper())
        config.add_cleanup(kept.close)
