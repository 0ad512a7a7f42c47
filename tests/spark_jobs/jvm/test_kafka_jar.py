"""The jar of the Kafka source whose micro-batches are limited: made of the sources next to it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from sources.errors import InputError
from spark_jobs.jvm import kafka_jar
from spark_jobs.jvm.kafka_jar import JAR, SOURCE, class_path, require_jar
from spark_jobs.jvm.own_jar import compile_classes

PACKAGE = "hybridbackfill/kafka"


def names(kind: str) -> set[str]:
    with zipfile.ZipFile(JAR) as jar:
        return {name for name in jar.namelist() if name.endswith(kind)}


def test_the_jar_holds_the_sources_as_they_are() -> None:
    assert names(".java") == {f"{PACKAGE}/{path.name}" for path in SOURCE.glob("*.java")}
    with zipfile.ZipFile(JAR) as jar:
        for path in SOURCE.glob("*.java"):
            held = jar.read(f"{PACKAGE}/{path.name}")
            assert held == path.read_bytes(), "python -m spark_jobs.jvm.kafka_jar"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="a JRE has no compiler")
def test_the_sources_compile_to_the_classes_of_the_jar(tmp_path: Path) -> None:
    compile_classes(SOURCE, class_path(), tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.class")}
    assert found == names(".class")


def test_a_package_without_the_jar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_jar() == JAR
    monkeypatch.setattr(kafka_jar, "JAR", SOURCE / "none.jar")
    with pytest.raises(InputError, match="can't be aligned"):
        require_jar()
