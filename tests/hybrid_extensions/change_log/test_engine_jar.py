"""The engine's jar: made of the sources that are next to it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from hybrid_extensions.change_log.engine import JAR, PACKAGE, SOURCE
from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.own_jar import compile_classes


def test_the_jar_holds_the_sources_as_they_are() -> None:
    with zipfile.ZipFile(JAR) as jar:
        for path in SOURCE.glob("*.java"):
            held = jar.read(f"{PACKAGE}/{path.name}")
            assert held == path.read_bytes(), "python -m hybrid_extensions.change_log.engine"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="a JRE has no compiler")
@pytest.mark.parametrize("jars", ["connect", "connect-mariadb", "connect-mysql"])
def test_the_sources_compile_to_the_classes_of_the_jar(jars: str, tmp_path: Path) -> None:
    compile_classes(SOURCE, [f"{resolve(jars)[0].parent}/*"], tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.class")}
    with zipfile.ZipFile(JAR) as jar:
        assert found == {name for name in jar.namelist() if name.endswith(".class")}
