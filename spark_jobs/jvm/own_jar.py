"""Jars of this project's own Java classes, which packages hold with their source in them."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sources.common.counting import counted
from sources.errors import InputError

_TIME = (1980, 1, 1, 0, 0, 0)


class OwnJar(NamedTuple):
    """A jar of the project's own Java classes, in a folder of the package with their sources.

    Attributes:
        source: The folder, absolute.
        name: Name of the jar in it.
        package: Java package of the classes, with slashes.
        purpose: What is not possible or not safe without it, in full sentences.
    """

    source: Path
    name: str
    package: str
    purpose: str

    @property
    def path(self) -> Path:
        """Path of the jar, whether it is there or not."""
        return self.source / self.name

    def require(self) -> Path:
        """Return the path of the jar.

        Raises:
            InputError: The installed package lacks it.
        """
        if not self.path.exists():
            message = f"{self.path} is missing. {self.purpose}"
            hint = "Install this package again; the jar is part of it."
            raise InputError(message, hint, file=str(self.path))
        return self.path

    def build(self, class_path: Sequence[str]) -> None:
        """Write the jar from its sources, and print its size.

        Args:
            class_path: What the sources are compiled against.

        Raises:
            InputError: There is no compiler.
            CalledProcessError: The sources do not compile; the jar stays as it was.
        """
        self.path.write_bytes(_build_jar(self.source, class_path, self.package))
        sys.stdout.write(f"{self.path}: {counted(self.path.stat().st_size, 'byte')}\n")


def compile_classes(source: Path, class_path: Sequence[str], folder: Path) -> None:
    """Compile the Java files of a folder, for Java 17, into another folder.

    Args:
        source: The folder of the Java files.
        class_path: What they are compiled against.
        folder: Folder for the class files.

    Raises:
        InputError: There is no compiler.
        CalledProcessError: The compiler reports an error, which it has printed.
    """
    if (javac := shutil.which("javac")) is None:
        message = f"The classes of {source} can't be built: there is no Java compiler (`javac`)."
        raise InputError(message, "Install a JDK, version 17 or later.", value="javac")
    path = ":".join(class_path)
    command = [javac, "--release", "17", "-proc:none", "-d", str(folder), "-cp", path]
    subprocess.run([*command, *sorted(map(str, source.glob("*.java")))], check=True)


def _build_jar(source: Path, class_path: Sequence[str], package: str) -> bytes:
    """Compile the Java files of a folder and return the jar; one compiler makes the same bytes.

    Args:
        source: The folder.
        class_path: What they are compiled against.
        package: Their Java package, with slashes.
    """
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(out, "w") as jar:
        compile_classes(source, class_path, Path(scratch))
        classes = {path.relative_to(scratch): path for path in Path(scratch).rglob("*.class")}
        sources = {Path(package, path.name): path for path in source.glob("*.java")}
        for name, path in sorted({**classes, **sources}.items()):
            info = zipfile.ZipInfo(str(name), _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            jar.writestr(info, path.read_bytes())
    return out.getvalue()
