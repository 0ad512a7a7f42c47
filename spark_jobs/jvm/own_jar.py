"""Jars of this project's own Java classes, which packages hold with their source in them."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from sources.errors import InputError

_TIME = (1980, 1, 1, 0, 0, 0)


def compile_classes(source: Path, class_path: Sequence[str], folder: Path) -> None:
    """Compile the Java files of a folder.

    Args:
        source: The folder.
        class_path: What they are compiled against.
        folder: Folder for the class files.

    Raises:
        InputError: There is no compiler.
    """
    if (javac := shutil.which("javac")) is None:
        message = f"The classes of {source} can't be built: there is no Java compiler (`javac`)."
        raise InputError(message, "Install a JDK, version 17 or later.", value="javac")
    path = ":".join(class_path)
    command = [javac, "--release", "17", "-proc:none", "-d", str(folder), "-cp", path]
    subprocess.run([*command, *sorted(map(str, source.glob("*.java")))], check=True)


def build_jar(source: Path, class_path: Sequence[str], package: str) -> bytes:
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
