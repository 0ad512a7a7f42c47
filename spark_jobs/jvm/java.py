"""Look-up of Java for Spark and local servers: JAVA_HOME before the PATH, version 17 or later."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sources.errors import InputError

MINIMUM = 17
"""Lowest feature release of Java that Spark 4 and Kafka 4 run on."""
_TIMEOUT_S = 60.0
# By the program that installs packages on a system; all of them have this release.
_INSTALLERS = {
    "apt-get": "sudo apt-get install openjdk-{minimum}-jre-headless",
    "dnf": "sudo dnf install java-{minimum}-openjdk-headless",
    "apk": "sudo apk add openjdk{minimum}-jre-headless",
    "pacman": "sudo pacman -S jre{minimum}-openjdk-headless",
    "zypper": "sudo zypper install java-{minimum}-openjdk-headless",
    "brew": "brew install openjdk@{minimum}",
}
# Up to Java 8 the first number was always 1: "1.8.0_392".
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def require_java() -> Path:
    """Return the Java to start, after asking it for its version: of JAVA_HOME, else on the PATH.

    Raises:
        InputError: There is no Java, it does not run, or it is older than :data:`MINIMUM`.
    """
    path = find_java()
    version = java_version(path)
    if version < MINIMUM:
        message = f"Java at {path} is version {version}; Spark and Kafka need {MINIMUM} or later."
        raise InputError(message, _way_out(), file=str(path), value=str(version))
    return path


def java_version(path: Path) -> int:
    """Run ``java -version`` and return the feature release, such as 17; waits 60 s at most.

    Raises:
        InputError: The program can't be started, or reports no version.
    """
    try:
        run = subprocess.run(
            [path, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = (
            f"can't be started: {error.strerror}" if isinstance(error, OSError) else "is silent"
        )
        message = f"The Java at {path} {reason}."
        is_forbidden = isinstance(error, PermissionError)
        hint = f"{'Let this user execute the file. Or: ' if is_forbidden else ''}{_way_out()}"
        raise InputError(message, hint, file=str(path)) from None
    output = f"{run.stderr}\n{run.stdout}"
    found = _VERSION.search(output)
    if run.returncode != 0 or found is None:
        # macOS has a /usr/bin/java that only reports that Java is not installed.
        said = output.strip() or f"(nothing; exit status {run.returncode})"
        message = (
            f"The Java at {path} does not report its version, so it may be no Java at all. Its "
            f"output: {said.rstrip('.')}."
        )
        raise InputError(message, _way_out(), file=str(path))
    return int(found.group(1))


def spark_environment(home: Path) -> dict[str, str]:
    """Return the environment for ``spark-submit``: that of this process, plus Java, Spark, Python.

    Spark then starts the Java that was checked here, and this Python for driver and workers.

    Args:
        home: Folder of the Spark installation.

    Raises:
        InputError: Java is missing or too old.
    """
    java = require_java()
    return {
        **os.environ,
        "JAVA_HOME": os.environ.get("JAVA_HOME") or str(java.resolve().parent.parent),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def find_java() -> Path:
    """Return the path of Java without starting it, so that its version is not checked.

    It is ``JAVA_HOME/bin/java`` if JAVA_HOME is set, else the ``java`` on the PATH.

    Raises:
        InputError: No Java is found.
    """
    way_out = _way_out()
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK) or path.is_dir():
            # Spark's scripts start exactly this file: falling back to the PATH would only
            # move the failure to a place where it is harder to read.
            message = f"JAVA_HOME is {home}, but there is no executable file {path}."
            if (other := shutil.which("java")) is not None:
                way_out = (
                    f"Remove the variable (`unset JAVA_HOME`) to use {other}, which is on the "
                    f"PATH and has to be Java {MINIMUM} or later. If it is older: {way_out}"
                )
            raise InputError(message, way_out, file=str(path))
        return path
    on_path = shutil.which("java")
    if on_path is None:
        message = "No Java was found: JAVA_HOME is not set, and there is no `java` on the PATH."
        raise InputError(message, way_out)
    return Path(on_path)


def _way_out() -> str:
    """Return how to get a Java, with the command for this system where it is known."""
    known = [command for name, command in _INSTALLERS.items() if shutil.which(name)]
    command = f" (on this machine by `{known[0].format(minimum=MINIMUM)}`)" if known else ""
    return (
        f"Install a JDK or JRE {MINIMUM} or later{command}. Then set JAVA_HOME to its folder, in "
        "which `bin/java` is; or have its `java` first on the PATH, and JAVA_HOME not set."
    )
