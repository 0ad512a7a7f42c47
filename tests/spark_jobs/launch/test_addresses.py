"""What a driver is told about its addresses and its JVM, and who may reach a shared one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybrid_extensions.shared_drivers.requests import Request, ask, pid_of
from sources.errors import InputError
from spark_jobs.launch.submission import spark_properties, submit
from spark_jobs.launch.user_socket import listen
from tests.spark_jobs.launch.launch_case import pipeline

ALL = {"spark.driver.bindAddress": "0.0.0.0"}
STRANGER = """
import os, signal, sys
from pathlib import Path
from spark_jobs.launch.user_socket import listen
# After the imports, which another user may not read.
os.setuid(65534)
with listen(Path(sys.argv[1])):
    print("listening", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("spark", "exported", "expected"),
    [
        ({}, None, "127.0.0.1"),
        ({"conf": ALL}, None, "0.0.0.0"),
        ({}, "10.0.0.7", "10.0.0.7"),
        ({"master": "spark://a:7077"}, None, None),
        ({"master": "yarn"}, None, None),
    ],
)
def test_the_ui_of_a_local_driver_listens_where_the_driver_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: dict[str, object],
    exported: str | None,
    expected: str | None,
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    if exported is not None:
        monkeypatch.setenv("SPARK_LOCAL_IP", exported)
    loaded = pipeline(tmp_path, spark)
    for made in (submit.environment, submit.shared_environment):
        assert made(loaded, tmp_path).get("SPARK_LOCAL_IP") == expected


def test_clusters_keep_their_addresses_and_links(tmp_path: Path) -> None:
    local = spark_properties.spark_conf(pipeline(tmp_path, {}), tmp_path)
    assert local["spark.driver.bindAddress"] == local["spark.driver.host"] == "127.0.0.1"
    assert local["spark.ui.killEnabled"] == "false"
    declared = spark_properties.spark_conf(pipeline(tmp_path, {"conf": ALL}), tmp_path)
    assert declared["spark.driver.bindAddress"] == "0.0.0.0"
    for master in ("spark://a:7077", "yarn"):
        conf = spark_properties.spark_conf(pipeline(tmp_path, {"master": master}), tmp_path)
        assert not local.keys() & {"spark.ui.killEnabled", "spark.driver.host"} & conf.keys()


@pytest.mark.parametrize("master", ["local[2]", "spark://a:7077", "yarn"])
def test_drivers_write_times_as_every_reader_knows_them(tmp_path: Path, master: str) -> None:
    conf = spark_properties.spark_conf(pipeline(tmp_path, {"master": master}), tmp_path)
    assert conf["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"


def test_no_declaration_lets_files_be_passed_over_in_silence(tmp_path: Path) -> None:
    for name in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        loaded = pipeline(tmp_path, {"conf": {name: "true"}})
        assert spark_properties.spark_conf(loaded, tmp_path)[name] == "false"


def test_a_launch_has_a_folder_of_its_own(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        submit.prepare_scratch(pipeline(tmp_path, {}), tmp_path / "scratch")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "scratch").stat().st_mode) == 0o700


def test_the_socket_of_a_shared_driver_is_its_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with listen(tmp_path):
            assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o600
            assert pid_of(tmp_path) == os.getpid()
    finally:
        os.umask(before)


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that everybody may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
def test_nothing_is_sent_to_a_driver_of_another_user(anybodys: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STRANGER, str(anybodys)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    ) as stranger:
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "listening\n"
            for reach in (pid_of, lambda folder: ask(folder, Request(stop="x"))):
                with pytest.raises(InputError, match=r"uid 65534.* Nothing was sent to it"):
                    reach(anybodys)
        finally:
            stranger.kill()


@pytest.mark.parametrize(
    ("spark", "exported", "is_chosen"),
    [
        ({}, {}, True),
        ({"conf": {"spark.driver.defaultJavaOptions": "-XX:+UseSerialGC"}}, {}, False),
        ({}, {"JAVA_TOOL_OPTIONS": "-XX:+UseZGC"}, False),
        ({}, {"JAVA_TOOL_OPTIONS": "-Duser.language=en"}, True),
        ({}, {"SPARK_HOME": "/opt/spark"}, False),
        ({"master": "spark://a:7077"}, {}, False),
    ],
)
def test_a_garbage_collector_is_chosen_only_where_nobody_else_chooses_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: dict[str, object],
    exported: dict[str, str],
    is_chosen: bool,
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for name, value in exported.items():
        monkeypatch.setenv(name, value)
    conf = spark_properties.spark_conf(pipeline(tmp_path, spark), tmp_path)
    options = conf["spark.driver.extraJavaOptions"]
    assert options.endswith(" -XX:+UseParallelGC") == is_chosen
    assert ("GC" in options) == is_chosen
    # Thresholds of the compiler do not exclude each other: the last one counts.
    is_own = "SPARK_HOME" not in exported and "master" not in spark
    assert ("-XX:Tier4InvocationThreshold=" in options) == is_own
