"""Download of the jars of a set from Maven Central or ``HYBRID_MAVEN_REPOSITORY``, with Java."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from hybrid_extensions.maven import ivy
from sources.errors import InputError
from spark_jobs.jvm.jar_sets import JarSet
from spark_jobs.jvm.jars import FOLDER_VARIABLE, OnProgress
from spark_jobs.jvm.java import require_java


def download(
    set_name: str, jar_set: JarSet, folder: Path, lock: int, on_progress: OnProgress
) -> Path:
    """Download the jars of a set from Maven Central, or from ``HYBRID_MAVEN_REPOSITORY``.

    Contribution ``jars`` (:class:`sources.extensions.Extension`).

    Args:
        set_name: Name of the set, for messages.
        jar_set: Its packages.
        folder: Folder to work in; files that an interrupted download has verified are used again.
        lock: A locked file descriptor, which is locked as long as the download runs.
        on_progress: Called with the file name of each jar whose download begins.

    Returns:
        Folder with the jars, and nothing else.

    Raises:
        InputError: Java or PySpark's Ivy is missing, or a jar can't be downloaded.
    """
    java = require_java()
    repository = ivy.repository()
    fetched = folder / ivy.RETRIEVED
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    # Ivy runs for seconds: an optimizing compiler would cost more than it gains.
    launcher = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(_ivy_jar())]
    request = ivy.Request(set_name, jar_set.packages, jar_set.pins, jar_set.excludes)
    ivy.fetch(launcher, request, repository, folder, lock, on_progress)
    return fetched


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    roots = spec.submodule_search_locations if spec is not None else None
    found = [jar for root in roots or [] for jar in Path(root).glob("jars/ivy-*.jar")]
    if not found:
        message = (
            "The JVM parts can't be downloaded: the program that downloads them, Apache Ivy, comes "
            "with PySpark (`jars/ivy-*.jar`), and this Python has no PySpark with jars."
        )
        hint = (
            "Install it (`pip install pyspark`), or name a folder that already contains the jars "
            f"in the environment variable {FOLDER_VARIABLE}."
        )
        raise InputError(message, hint, value="pyspark")
    return found[0]
