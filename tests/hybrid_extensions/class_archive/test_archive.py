"""The archive of classes: used if it is there, and no obstacle if it does not fit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hybrid_extensions.class_archive import archive as class_archive
from hybrid_extensions.class_archive.archive import use_archive
from spark_jobs.jvm.java import require_java
from spark_jobs.jvm.spark_version import spark_home

JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]
OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    return tmp_path


def archive_in(cache: Path) -> Path:
    """Something that lies where the archive would."""
    path = class_archive.archive_file(spark_home(), JARS)
    assert path.parent == cache
    path.write_bytes(b"not an archive")
    return path


def test_the_class_archive_is_used_if_it_exists_and_is_valid(cache: Path) -> None:
    given = {OPTIONS: "-Da=b"}
    assert use_archive(spark_home(), JARS, given) == given
    path = archive_in(cache)
    conf = use_archive(spark_home(), JARS, given)
    assert conf["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert conf[OPTIONS].startswith(f"-Da=b -XX:SharedArchiveFile={path} ")
    java = [str(require_java()), f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-version"]
    done = subprocess.run(java, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "cds" not in done.stderr


def test_a_class_path_of_the_users_own_is_left_alone(cache: Path) -> None:
    archive_in(cache)
    own = {"spark.driver.extraClassPath": "/own.jar"}
    assert use_archive(spark_home(), JARS, own) == own


def test_other_jars_have_another_archive(cache: Path) -> None:
    archive_in(cache)
    assert use_archive(spark_home(), JARS[:1], {}) == {}
