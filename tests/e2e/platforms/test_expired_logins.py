"""The login to the store expires under a live run, whose state and target are in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from orchestration.supervision import supervisor
from sources.config.loader import LoadedPipeline
from sources.errors import UnavailableError
from sources.planning.context import PipelineContext
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores
from spark_jobs.inside.errors.store_answer import is_of_store
from spark_jobs.jvm.storage_jar import FOLLOWING_LOGIN
from spark_jobs.launch import run_control
from tests.e2e.case import Case, live_of, start_live, wrong
from tests.services.lake import BUCKET, Edit, lake
from tests.services.processes import runs, wait_for
from tests.services.profile_file import ProfileFile
from tests.services.s3_server import LOGIN, tell

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]
DEADLINE_S = 120


@pytest.fixture
def move(tmp_path: Path, profile: ProfileFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    with lake("s3", tmp_path) as made:
        for name in LOGIN:
            monkeypatch.delenv(name)
        for name, value in profile.environment.items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def profile(tmp_path: Path) -> ProfileFile:
    made = ProfileFile(tmp_path)
    made.write("one")
    return made


def pid_of(loaded: LoadedPipeline) -> int:
    found = run_control.find_running(loaded.require_generation(), "live")
    assert found is not None
    return found.pid


@pytest.mark.slow
@pytest.mark.parametrize("renewed", ["at once", "after its driver has ended"])
def test_a_live_run_goes_on_once_its_login_is_renewed(
    tmp_path: Path, servers: str, move: Edit, profile: ProfileFile, renewed: str
) -> None:
    def patient(document: dict[str, Any]) -> None:
        move(document)
        document["supervision"] = {"restarts": {"backoff": "0 s"}}

    case = Case(tmp_path, servers)
    case.write_history(range(600))
    case.produce(range(500, 900))
    loaded = case.pipeline(patient)
    endpoint = loaded.pipeline.s3.endpoint
    assert endpoint is not None
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        pid = pid_of(loaded)
        tell(endpoint, "requests")
        tell(endpoint, "expire", logins=["one"])
        case.produce(range(900, 1200))
        if renewed == "at once":
            wait_for(lambda: tell(endpoint, "requests").get("expired", 0) > 0, "a refusal")
        else:
            wait_for(lambda: not runs(pid), "the driver's end", DEADLINE_S)
            with pytest.raises(UnavailableError, match="the login to the store has expired"):
                supervisor.tick(loaded)
            with pytest.raises(UnavailableError, match="the login to the store has expired"):
                audit(loaded)
        profile.write("two")

        def is_up() -> bool:
            tick = supervisor.tick(loaded)
            assert tick is not None
            assert tick.verdict.health != "failed", tick.verdict.reason
            if tick.restart is not None:
                supervisor.restart(loaded, live_of(loaded))
            return tick.verdict.health == "healthy"

        wait_for(is_up, "a live run", DEADLINE_S)
        wait_until_caught_up(PipelineContext.require(loaded))
        # What it reads last comes after all that was refused.
        case.produce(range(1200, 1300))
        wait_for(is_up, "a live run", DEADLINE_S)
        wait_until_caught_up(PipelineContext.require(loaded))
    finally:
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1300, {})


@pytest.mark.slow
def test_spark_follows_a_credentials_file_that_is_rewritten(
    spark: SparkSession, move: Edit, profile: ProfileFile
) -> None:
    # Both are given as the environment is to a driver; the session's JVM began without them.
    jvm: Any = spark._jvm
    named = {
        "aws.sharedCredentialsFile": profile.environment["AWS_SHARED_CREDENTIALS_FILE"],
        "aws.configFile": profile.environment["AWS_CONFIG_FILE"],
        "aws.profile": profile.environment["AWS_PROFILE"],
    }
    for name, value in named.items():
        jvm.System.setProperty(name, value)
    document: dict[str, Any] = {"sink": {}}
    move(document)
    endpoint = document["s3"]["endpoint"]
    stores = Stores(S3Settings(endpoint=endpoint))
    stores.folder(f"s3://{BUCKET}").replace_bytes("a.txt", b"text")
    hadoop = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    settings = {
        "aws.credentials.provider": FOLLOWING_LOGIN,
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    for name, value in settings.items():
        hadoop.set(f"fs.s3a.{name}", value)
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/a.txt")
    files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), hadoop)

    def is_read() -> bool:
        try:
            return bool(files.getFileStatus(path).getLen() == 4)
        except Py4JJavaError as error:
            if not is_of_store(error):
                raise
            return False

    try:
        assert is_read()
        for before, after in (("one", "two"), ("two", "three")):
            tell(endpoint, "expire", logins=[before])
            assert not is_read()
            profile.write(after)
            wait_for(is_read, "the renewed login")
    finally:
        files.close()
        for name in named:
            jvm.System.clearProperty(name)
