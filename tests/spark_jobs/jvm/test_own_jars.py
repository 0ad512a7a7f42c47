"""This project's jars: made of the sources that are next to them, and never silently missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from sources.errors import InputError
from spark_jobs.jvm import kafka_jar, storage_jar
from spark_jobs.jvm.own_jar import OwnJar
from tests.own_jars import assert_classes, assert_sources

EACH = pytest.mark.parametrize("module", [kafka_jar, storage_jar], ids=["kafka", "storage"])


@EACH
def test_the_jar_holds_the_sources_as_they_are(module: ModuleType) -> None:
    assert_sources(module.JAR)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="a JRE has no compiler")
@EACH
def test_the_sources_compile_to_the_classes_of_the_jar(module: ModuleType, tmp_path: Path) -> None:
    assert_classes(module.JAR, module.class_path(), tmp_path)


@pytest.mark.parametrize(
    ("jar", "loss"),
    [(kafka_jar.JAR, "can't be aligned"), (storage_jar.JAR, "would lose its commits silently")],
)
def test_a_package_without_the_jar_is_refused(jar: OwnJar, loss: str) -> None:
    assert jar.require() == jar.path
    with pytest.raises(InputError, match=loss):
        jar._replace(name="none.jar").require()
