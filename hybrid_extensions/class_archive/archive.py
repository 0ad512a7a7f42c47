"""Class archive (AppCDS) of a driver, which shortens its start by a quarter.

The JVM writes the archive when a small job ends and maps it into each later driver, instead of
loading and verifying some 20,000 classes again (application class-data sharing, JEP 310 and
JEP 350). The JVM silently ignores an archive that does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sources.common.cache import cache_folder, make_private
from sources.errors import RunError
from spark_jobs.jvm.installed_archive import ClassArchive
from spark_jobs.jvm.java import find_java, spark_environment

_JOB = Path(__file__).parent / "spark" / "archive_job.py"
_TIMEOUT_S = 1200.0


def use_archive(home: Path, jars: Sequence[Path], conf: dict[str, str]) -> dict[str, str]:
    """Return the Spark properties, extended to start a local driver with the class archive.

    Args:
        home: Folder of the Spark installation (``SPARK_HOME``, or the one inside PySpark).
        jars: The project's own jars, which come first on the class path.
        conf: All other Spark properties.

    Returns:
        ``conf`` itself if there is no archive for this Java, Spark and jars, or if it sets
        ``spark.driver.extraClassPath``; else a copy with the class path and the JVM's option.

    Raises:
        InputError: There is no Java; whether it is new enough is not checked.
    """
    archive = archive_file(home, jars)
    if not archive.exists() or "spark.driver.extraClassPath" in conf:
        return conf
    options = conf.get("spark.driver.extraJavaOptions", "")
    return {
        **conf,
        # Must equal the class path at archiving: the JVM ignores the archive from the first
        # difference on.
        "spark.driver.extraClassPath": _class_path(jars),
        "spark.driver.extraJavaOptions": (
            f"{options} -XX:SharedArchiveFile={archive} -Xlog:cds=off".strip()
        ),
    }


def make_archive(home: Path, jars: Sequence[Path]) -> Path:
    """Create the class archive unless it exists, by running a small Spark job.

    One process creates it at a time; others wait for it.

    Args:
        home: Folder of the Spark installation.
        jars: The project's own jars.

    Returns:
        The archive's file.

    Raises:
        InputError: There is no Java, or too old a one.
        RunError: The job that loads the classes failed; carries the end of its output.
        subprocess.TimeoutExpired: The job took longer than 20 minutes.
    """
    archive = archive_file(home, jars)
    make_private(archive.parent)
    with archive.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have created it while this one waited.
        if not archive.exists():
            _make(home, jars, archive)
    return archive


def _make(home: Path, jars: Sequence[Path], archive: Path) -> None:
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="hybrid-archive-") as scratch:
        conf = {
            "spark.master": "local[2]",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.driver.extraClassPath": _class_path(jars),
            "spark.driver.extraJavaOptions": (
                f"-XX:ArchiveClassesAtExit={part} -Xlog:cds=off -Xlog:cds+dynamic=off "
                "-XX:TieredStopAtLevel=1"
            ),
        }
        command = [
            str(home / "bin" / "spark-submit"),
            *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
            "--jars",
            ",".join(map(str, jars)),
            str(_JOB),
            scratch,
        ]
        done = subprocess.run(
            command,
            env=spark_environment(home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0 or not part.exists():
        tail = "\n".join(done.stderr.splitlines()[-20:])
        message = (
            f"The class archive {archive} can't be created: the Spark job that loads the classes "
            f"ended with exit status {done.returncode}. The end of its output:\n{tail}"
        )
        hint = (
            "Nothing depends on the archive: runs work without it, but each driver starts more "
            "slowly. To get it, correct the cause above and run `hybrid jars` again."
        )
        raise RunError(message, hint, file=str(archive))
    part.replace(archive)


def archive_file(home: Path, jars: Sequence[Path]) -> Path:
    """Return the path of the class archive for this Java, Spark and jars; it may not exist yet.

    The name contains a digest of all three, since an archive fits no other combination.

    Raises:
        InputError: No Java is found.
    """
    # Called at each launch, so it starts no process.
    java = find_java().resolve()
    release = java.parent.parent / "release"
    version = release.read_text() if release.exists() else str(java.stat().st_mtime_ns)
    spark = sorted(path.name for path in (home / "jars").glob("*.jar"))
    what = [str(java), version, str(home), *spark, *map(str, jars)]
    digest = hashlib.sha256("\n".join(what).encode()).hexdigest()[:10]
    return cache_folder() / f"classes-{digest}.jsa"


def _class_path(jars: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, jars))


class _Archive:
    """Implements :class:`spark_jobs.jvm.installed_archive.ClassArchive`."""

    use = staticmethod(use_archive)
    make = staticmethod(make_archive)


ARCHIVE: ClassArchive = _Archive()
