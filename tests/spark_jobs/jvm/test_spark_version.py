"""Which versions of Spark are supported, and how another one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import __version__ as installed

from sources.errors import InputError
from spark_jobs.job import main
from spark_jobs.jvm.jar_sets import excludes, find_set, packages, sets_with
from spark_jobs.jvm.spark_version import (
    SUPPORTED,
    installed_parts,
    minor_of,
    parts_of,
    require_launched,
    spark_home,
    version_at,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark distribution without a jar."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return tmp_path / "spark"


def has_core(home: Path, version: str) -> None:
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()


def test_the_version_of_pyspark_is_read_from_its_jars() -> None:
    assert version_at(spark_home()) == installed
    assert installed_parts() == SUPPORTED[minor_of(installed)]


@pytest.mark.parametrize("version", ["4.0.1", "3.5.9", "4.20.0", "5.0.0-preview1"])
def test_an_unsupported_spark_is_refused_by_name_before_jars_are_fetched(
    home: Path, version: str
) -> None:
    has_core(home, version)
    for what in (find_set, packages, excludes):
        with pytest.raises(InputError) as caught:
            what("spark")
        assert f"Spark {version} in {home} is not supported" in str(caught.value)
        assert "Nothing was read or written" in str(caught.value)
        # Another PySpark changes nothing while the variable names this one.
        assert caught.value.hint.startswith("Set `SPARK_HOME` to the folder of a Spark")


def test_a_vendors_build_of_a_supported_version_is_accepted(home: Path) -> None:
    has_core(home, f"{installed}-amzn-0")
    assert version_at(home) == f"{installed}-amzn-0"
    assert installed_parts() == SUPPORTED[minor_of(installed)]


def test_sets_that_do_not_go_with_spark_are_found_whatever_spark_there_is(home: Path) -> None:
    has_core(home, "3.5.9")
    assert find_set("broker").packages
    with pytest.raises(InputError, match=r"3\.5\.9"):
        find_set("s3")


@pytest.mark.parametrize("name", SUPPORTED["4.1"].lacks)
def test_a_set_that_a_spark_lacks_is_refused_by_name(home: Path, name: str) -> None:
    has_core(home, SUPPORTED["4.1"].spark)
    assert name not in sets_with(SUPPORTED["4.1"])
    with pytest.raises(InputError, match=rf"`{name}` do not exist for Spark 4\.1"):
        find_set(name)


def test_without_a_spark_the_parts_are_those_of_the_default(home: Path) -> None:
    assert installed_parts() == parts_of("4.2.1", "")


@pytest.mark.parametrize("minor", SUPPORTED)
def test_the_parts_of_a_version_are_made_for_it(minor: str) -> None:
    parts = SUPPORTED[minor]
    assert minor_of(parts.spark) == minor_of(parts.kafka) == minor
    assert f"delta-spark_{minor}_2.13" in parts.delta
    assert parts.delta in sets_with(parts)["spark"].packages


def test_a_driver_with_another_spark_than_its_launchs_is_refused() -> None:
    require_launched(installed, None)
    require_launched(installed, minor_of(installed))
    with pytest.raises(InputError, match=r"runs Spark .* but it was launched for Spark 4\.9\.1"):
        require_launched(installed, "4.9.1")
    with pytest.raises(InputError, match=r"Spark 4\.0\.1 of this driver is not supported"):
        require_launched("4.0.1", "4.0.1")


def test_the_job_refuses_before_it_reads_the_pipelines_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--pipeline", str(tmp_path / "missing.yaml"), "--source", "history"]
    assert main([*arguments, "--launch-id", "x", "--spark", "4.9.1"]) == 2
    assert "launched for Spark 4.9.1" in capsys.readouterr().err
