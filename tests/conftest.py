"""What tests of all rooms share: one real broker, HDFS and cluster of Spark for the session."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator

import pytest

from services.azurite import LocalAzurite
from services.broker import LocalBroker
from services.connect import LocalConnect
from services.mariadb import LocalMariaDb
from services.postgres import LocalPostgres
from sources.planning.transform_analysis import AnalysisRequest, TransformAnalysis
from spark_jobs.launch.questions.transform_check import TransformCheck
from tests.services.hdfs_server import hdfs_server
from tests.services.standalone import Standalone, standalone


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


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    """Address of a real Kafka broker."""
    # Retention looks every few minutes otherwise, compaction every 15 s.
    config = {
        "log.retention.check.interval.ms": "300",
        "log.initial.task.delay.ms": "300",
        "log.cleaner.backoff.ms": "300",
    }
    with LocalBroker(config=config) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A real PostgreSQL."""
    with LocalPostgres() as server:
        yield server


@pytest.fixture(scope="session")
def connect(servers: str) -> Iterator[LocalConnect]:
    """Kafka Connect with Debezium."""
    with LocalConnect(servers, settings={"value.converter.schemas.enable": "true"}) as worker:
        yield worker


@pytest.fixture(scope="session")
def mariadb() -> Iterator[LocalMariaDb]:
    """A real MariaDB."""
    with LocalMariaDb() as server:
        yield server


@pytest.fixture(scope="session")
def connect_mariadb(servers: str) -> Iterator[LocalConnect]:
    """Kafka Connect with Debezium for MariaDB, which needs jars of its own."""
    settings = {"value.converter.schemas.enable": "true"}
    with LocalConnect(servers, settings=settings, jars="connect-mariadb") as worker:
        yield worker


@pytest.fixture(scope="session")
def namenode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real HDFS."""
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="session")
def azurite() -> Iterator[LocalAzurite]:
    """A real server with the API of Azure Blob Storage."""
    if shutil.which("npm") is None:
        pytest.skip("npm, which installs Azurite, is not installed")
    with LocalAzurite() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A real standalone cluster of Spark."""
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever starts Spark, or is long, is slow; `-m "not slow"` must answer quickly."""
    for item in items:
        if any(item.get_closest_marker(name) is not None for name in ("spark", "long")):
            item.add_marker(pytest.mark.slow)
