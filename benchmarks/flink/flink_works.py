"""Flink's part: building it with Maven, its command, and the options of a piece of work."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.flink.inputs import TOPIC, Inputs
from spark_jobs.jvm.java import require_java

_PROJECT = Path(__file__).parent
_BUILT = _PROJECT.parents[1] / "build" / "flink"
# What Flink's own scripts pass to Java 17; the heap is the project's.
_JVM = (
    "-Xmx4g",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


def build() -> None:
    """Compile Flink's part and collect its jars in ``build/flink``.

    Raises:
        RuntimeError: There is no Maven, or it failed; the message has what it printed.
    """
    maven = shutil.which("mvn")
    if maven is None:
        message = "Flink's part is built with Maven, and there is no `mvn` on the PATH: install it."
        raise RuntimeError(message)
    command = [maven, "--quiet", "--batch-mode", "compile", "dependency:copy-dependencies"]
    done = subprocess.run(command, cwd=_PROJECT, check=False, capture_output=True, text=True)
    if done.returncode:
        message = f"Maven could not build Flink's part:\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)


def command() -> list[str]:
    """Return the command of a process that does a piece of work for each line of its input."""
    classes = f"{_BUILT / 'classes'}:{_BUILT / 'jars'}/*"
    return [str(require_java()), *_JVM, "-cp", classes, "beside.Main"]


def version() -> str:
    """Return the version of Flink that was built."""
    (jar,) = (_BUILT / "jars").glob("flink-runtime-*.jar")
    return jar.stem.removeprefix("flink-runtime-")


def options(inputs: Inputs, work: str, name: str, parser: str) -> dict[str, Any]:
    """Return the options of a piece of work.

    Args:
        inputs: Files and topic.
        work: ``files``, ``topic``, ``windows`` or ``chain``.
        name: Name of the table's folder.
        parser: ``binding`` or ``own``.
    """
    return {
        "work": work,
        "parser": parser,
        "in": inputs.history.as_uri(),
        "servers": inputs.servers,
        "topic": TOPIC,
        "history_end_ms": inputs.history_end_ms,
        "out": (inputs.folder / name).as_uri(),
        "checkpoints": str(inputs.folder / f"checkpoints-{name}"),
    }
