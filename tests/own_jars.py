"""What holds for each jar of the project's own Java classes."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.jvm.own_jar import OwnJar, compile_classes


def names(jar: OwnJar, kind: str) -> set[str]:
    """The names of its entries that end with a kind, such as ``.java``."""
    with zipfile.ZipFile(jar.path) as held:
        return {name for name in held.namelist() if name.endswith(kind)}


def assert_sources(jar: OwnJar) -> None:
    """It holds the sources as they are in the folder."""
    there = {f"{jar.package}/{path.name}": path for path in jar.source.glob("*.java")}
    assert names(jar, ".java") == there.keys()
    with zipfile.ZipFile(jar.path) as held:
        for name, path in there.items():
            assert held.read(name) == path.read_bytes(), f"{path}: build the jar again"


def assert_classes(jar: OwnJar, class_path: Sequence[str], folder: Path) -> None:
    """Its sources compile, into an empty folder, to the classes that it holds."""
    compile_classes(jar.source, class_path, folder)
    compiled = {str(path.relative_to(folder)) for path in folder.rglob("*.class")}
    assert compiled == names(jar, ".class")
