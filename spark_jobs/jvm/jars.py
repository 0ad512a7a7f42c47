"""The JVM parts of the project: declared here, fetched once by the Ivy inside PySpark.

Three ways in: Maven Central; a mirror of the user's own (``HYBRID_MAVEN_REPOSITORY``); or a folder
that already holds the jars (``HYBRID_JARS``), for machines without a network. Neither PySpark nor a
JVM is started for jars that are already there.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sources.errors import InputError
from sources.kafka.address import cache_folder
from spark_jobs.jvm import ivy
from spark_jobs.jvm.java import require_java

FOLDER_VARIABLE = "HYBRID_JARS"
_LISTING = "files.json"

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class JarSet:
    """What one purpose needs, as Maven coordinates ``group:artifact:version``.

    Args:
        packages: What is asked for; what they depend on comes along.
        pins: Take this version, and no other, of something the packages depend on.
        excludes: ``group:artifact`` or ``group:*`` that is left out wherever it appears.
    """

    packages: tuple[str, ...]
    pins: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


# All of these are in PySpark's own `jars`, often newer: a second copy would be fetched for
# nothing, and may win on the class path.
_IN_PYSPARK = (
    "at.yawk.lz4:*",
    "com.fasterxml.jackson.core:*",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "io.airlift:aircompressor",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.apache.spark:spark-tags_2.13",
    "org.lz4:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.scala-lang:*",
    "org.scala-lang.modules:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)

SETS: dict[str, JarSet] = {
    "spark": JarSet(
        packages=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "io.delta:delta-spark_4.2_2.13:4.4.0",
        ),
        # Mirrors exist that lack the file of 4.2.0. This one was tried with the connector of
        # 4.2.0: plaintext and SASL/PLAIN.
        pins=("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",),
        excludes=_IN_PYSPARK,
    ),
    # The Hadoop that PySpark carries is 3.5.0. It brings the AWS SDK, 690 MB in one file.
    "s3": JarSet(packages=("org.apache.hadoop:hadoop-aws:3.5.0",), excludes=_IN_PYSPARK),
    "broker": JarSet(
        packages=(
            "org.apache.kafka:kafka_2.13:4.3.1",
            # Kafka logs through slf4j 1.7: without a binding even its reason for dying is lost.
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    # 3.7.0.Final misses a file on mirrors.
    "connect": JarSet(
        packages=(
            "org.apache.kafka:connect-runtime:4.3.1",
            "org.apache.kafka:connect-json:4.3.1",
            "io.debezium:debezium-connector-postgres:3.6.3.Final",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
}


def resolve(set_name: str, on_progress: OnProgress = lambda _: None) -> list[Path]:
    """The jars of a set, sorted; downloads them unless they are in the cache or handed in.

    Safe to call from several processes at once: one downloads, the others wait for it.

    Args:
        set_name: A key of ``SETS``.
        on_progress: Called with the file name of each jar whose download begins, and once before
            waiting for another process.

    Raises:
        InputError: No such set; no Java to download with; something can't be downloaded; or the
            folder in ``HYBRID_JARS`` does not hold the set.
    """
    return obtain(set_name, _declared(set_name), on_progress)


def obtain(set_name: str, jar_set: JarSet, on_progress: OnProgress = lambda _: None) -> list[Path]:
    """The jars of any set, as :func:`resolve` has them of those declared here."""
    if handed_in := os.environ.get(FOLDER_VARIABLE):
        return _handed_in(Path(handed_in) / set_name, set_name)
    digest = hashlib.sha256(repr(jar_set).encode()).hexdigest()[:10]
    folder = cache_folder() / "jars" / f"{set_name}-{digest}"
    if (jars := _complete(folder)) is not None:
        return jars
    with _locked(folder, set_name, on_progress) as lock:
        # Another process may have finished while this one waited.
        if (jars := _complete(folder)) is None:
            request = ivy.Request(set_name, jar_set.packages, jar_set.pins, jar_set.excludes)
            jars = _download(request, folder, lock, on_progress)
    return jars


def packages(set_name: str) -> str:
    """A set as ``spark.jars.packages``, for a cluster that fetches its own jars.

    Raises:
        InputError: No such set.
    """
    # Without the pins: Spark would take the newer of the two versions, and an entry in
    # `spark.jars.excludes` removes both. A cluster's repository must have the newer one.
    return ",".join(_declared(set_name).packages)


def excludes(set_name: str) -> str:
    """What goes with ``packages`` as ``spark.jars.excludes``: a cluster's Spark carries it.

    Raises:
        InputError: No such set.
    """
    return ",".join(_declared(set_name).excludes)


def _declared(set_name: str) -> JarSet:
    if set_name not in SETS:
        message = f"There is no set of jars called `{set_name}`."
        raise InputError(message, f"The sets are {', '.join(sorted(SETS))}.")
    return SETS[set_name]


def _handed_in(folder: Path, set_name: str) -> list[Path]:
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        state = "holds no jars" if folder.is_dir() else "does not exist"
        message = f"{FOLDER_VARIABLE} is set, so nothing is downloaded, but {folder} {state}."
        hint = (
            f"On a machine with a network, run `hybrid jars` and copy the folder that it prints "
            f"for `{set_name}` to {folder}."
        )
        raise InputError(message, hint)
    return jars


def _complete(folder: Path) -> list[Path] | None:
    """The jars if all that were downloaded are still there, at their full size."""
    try:
        listing: dict[str, int] = json.loads((folder / _LISTING).read_text())
        if any((folder / name).stat().st_size != size for name, size in listing.items()):
            return None
    except (OSError, ValueError):
        return None
    return [folder / name for name in sorted(listing)]


@contextmanager
def _locked(folder: Path, set_name: str, on_progress: OnProgress) -> Iterator[int]:
    path = folder.with_name(f"{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        message = f"The cache folder {path.parent} can't be written: {error.strerror}."
        raise InputError(message, "Name another one in HYBRID_CACHE.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(f"waiting for another process that downloads the {set_name} jars")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _download(request: ivy.Request, folder: Path, lock: int, on_progress: OnProgress) -> list[Path]:
    java = require_java()
    repository = ivy.repository()
    # Under the lock nobody else is in there. What Ivy has checked of an interrupted download is
    # used again; the folder that counts appears by one rename, when all of it is there.
    part = folder.with_name(f"{folder.name}.part")
    fetched = part / ivy.RETRIEVED
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    # A run of seconds: compiling it well costs more than it gains.
    launcher = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(_ivy_jar())]
    ivy.fetch(launcher, request, repository, part, lock, on_progress)
    sizes = {jar.name: jar.stat().st_size for jar in fetched.glob("*.jar")}
    (fetched / _LISTING).write_text(json.dumps(sizes, indent=1, sort_keys=True))
    shutil.rmtree(folder, ignore_errors=True)
    fetched.rename(folder)
    shutil.rmtree(part, ignore_errors=True)
    return [folder / name for name in sorted(sizes)]


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    roots = spec.submodule_search_locations if spec is not None else None
    found = [jar for root in roots or [] for jar in Path(root).glob("jars/ivy-*.jar")]
    if not found:
        message = "There is no PySpark with its jars in this Python, so nothing can be downloaded."
        hint = f"Install pyspark, or name a folder of jars in {FOLDER_VARIABLE}."
        raise InputError(message, hint)
    return found[0]
