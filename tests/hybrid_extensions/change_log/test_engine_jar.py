"""The engine's jar: made of the sources that are next to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hybrid_extensions.change_log.engine import JAR
from spark_jobs.jvm.jars import resolve
from tests.own_jars import assert_classes, assert_sources


def test_the_jar_holds_the_sources_as_they_are() -> None:
    assert_sources(JAR)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="a JRE has no compiler")
@pytest.mark.parametrize("jars", ["connect", "connect-mariadb", "connect-mysql"])
def test_the_sources_compile_to_the_classes_of_the_jar(jars: str, tmp_path: Path) -> None:
    assert_classes(JAR, [f"{resolve(jars)[0].parent}/*"], tmp_path)
