"""Spark properties of a driver: defaults, UTC, state store, object stores; declared ones win."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from pkgutil import resolve_name

from sources.config.loader import LoadedPipeline
from sources.config.managed_service import managed_services
from sources.config.source.file_source import FileSource
from sources.config.spark_settings import SparkSettings
from sources.extensions import items_added
from spark_jobs.jvm.storage_jar import CONF, DEFAULT_LOGIN, ON_DISK
from spark_jobs.launch.launch_record import Place
from spark_jobs.launch.places.cluster import cluster_at
from spark_jobs.launch.submission.addresses import local_conf

POOL = "spark.scheduler.pool"
"""Local property of a thread: name of the pool that its jobs share cores with the others by."""
PACKAGE = Path(__file__).parents[2]
"""Folder of the package ``spark_jobs``, which has the scripts of the jobs in it."""
# The jars that Hadoop's clients of a store need, by the schemes of its paths.
_STORES = {"s3": ("s3://", "s3a://"), "azure": ("abfss://",), "google": ("gs://",)}
_JVM_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_COMPILER = (
    " -XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=3000"
    " -XX:Tier4CompileThreshold=60000"
)
_KUBERNETES_ENV = "spark.kubernetes.driverEnv."

# State on disk with a memory limit, instead of all keys in the executors' heaps; and a commit
# writes changes only. A checkpoint that was begun with another store keeps that one.
STATE_STORE = {
    f"spark.sql.streaming.stateStore.{name}": value
    for name, value in {
        "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "rocksdb.changelogCheckpointing.enabled": "true",
        "rocksdb.boundedMemoryUsage": "true",
    }.items()
}


TIMES = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Times in Parquet as all readers know them: of INT96, Spark's default, many lose those that
nanoseconds can't hold, such as 9999-12-31."""

# Spark would pass over files that are damaged or gone in silence, and their rows would be missing.
_WHOLE = {f"spark.sql.files.ignore{what}Files": "false" for what in ("Corrupt", "Missing")}

WORKER_DAEMON = {"spark.python.daemon.module": "spark_jobs.inside.worker_daemon"}
"""Python workers that have loaded what our tasks import; for drivers in this environment."""


def _master(settings: SparkSettings) -> str:
    """Return the master URL, by which a task of a shared driver on this machine may fail once.

    A query that ends takes the Python workers of its tasks with it, and one of them may just have
    been given to a task of another query: Spark gives a task a single attempt in `local[n]`, and
    two in `local[n,2]`.
    """
    found = re.fullmatch(r"local\[(\*|\d+)\]", settings.master)
    is_shared = settings.driver == "shared"
    return f"local[{found[1]},2]" if is_shared and found is not None else settings.master


def spark_conf(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """Return the Spark properties with which a pipeline's drivers are started.

    Those that the pipeline declares take precedence, but not to pass over files in silence.

    Args:
        loaded: The pipeline.
        scratch: Folder for the temporary files of a driver on this machine.
    """
    settings = loaded.pipeline.spark
    conf = {
        "spark.master": _master(settings),
        "spark.submit.deployMode": settings.deploy_mode,
        "spark.app.name": f"hybrid {loaded.pipeline.name}",
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.showConsoleProgress": "false",
        # What is prepared beside a query, and pipelines of one driver, get cores before it is done.
        "spark.scheduler.mode": "FAIR",
        # Streaming plans print the options of their sources, credentials included.
        "spark.sql.redaction.options.regex": "(?i)url|kafka[.](ssl|sasl)",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Files without a zone, and dates, mean UTC everywhere in the project.
        "spark.sql.session.timeZone": "UTC",
        **TIMES,
        # The default of 50 costs seconds for logs as small as a plan's.
        "spark.databricks.delta.snapshotPartitions": "2",
        **STATE_STORE,
    }
    if settings.deploy_mode == "client":
        # The driver is on this machine, where all of this lies.
        log4j = (PACKAGE / "log4j2.properties").as_uri()
        conf |= {
            "spark.driver.extraJavaOptions": (
                f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={log4j}"
                f"{_jvm_options(settings)}"
            ),
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        }
    if settings.master.startswith("local"):
        conf |= local_conf()
        # The first run fixes this for the life of the checkpoint; Spark's 200 suit a cluster.
        conf["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
        conf |= WORKER_DAEMON
    elif (of_driver := _driver_env(settings)) is not None:
        # Python and this project come with the image; the transform's module does, or is on a
        # volume.
        for prefix in (of_driver, "spark.executorEnv."):
            conf[f"{prefix}PYTHONPATH"] = os.pathsep.join(map(str, loaded.code))
    else:
        # The same Python and modules for the workers as for the driver.
        conf["spark.executorEnv.PYTHONPATH"] = python_path(loaded)
        conf["spark.pyspark.python"] = sys.executable
    return {**conf, **settings.conf, **_WHOLE}


def _jvm_options(settings: SparkSettings) -> str:
    """Return options of the JVM that suit short runs and micro-batches, each after a space.

    Java's optimizing compiler waits for four times as many calls, as most of what a start and a
    micro-batch call is not called often enough to pay for it. The garbage collector takes a tenth
    less CPU time for windows than Java's default; it is left out where another one may be chosen,
    as a JVM refuses two of them: by the pipeline, by the environment, by the settings of a cluster
    or of a Spark that is not PySpark's own.
    """
    chosen = [settings.conf.get("spark.driver.defaultJavaOptions"), *map(os.getenv, _JVM_OPTIONS)]
    is_own = settings.master.startswith("local") and "SPARK_HOME" not in os.environ
    if not is_own:
        return ""
    may_choose = not any("GC" in options for options in chosen if options)
    return _COMPILER + (" -XX:+UseParallelGC" if may_choose else "")


def variable_prefixes(place: Place) -> tuple[str, ...]:
    """Return prefixes of Spark properties that give a driver at a place an environment variable.

    Empty for a driver on this machine, which has the variables of its launch.

    Raises:
        InputError: An extension can't be loaded.
    """
    if place.is_managed:
        return (managed_services()[place.kind].environment,)
    return cluster_at(place).variables if place.is_cluster else ()


def _driver_env(settings: SparkSettings) -> str | None:
    """Return the prefix of a driver's variables where it gets no environment of this machine."""
    if settings.managed_by is not None:
        return settings.managed_by.environment
    return _KUBERNETES_ENV if settings.master.startswith("k8s://") else None


def spark_properties(loaded: LoadedPipeline, place: Place, scratch: Path) -> dict[str, str]:
    """Return the Spark properties of a pipeline's driver, those of the stores it uses included.

    Args:
        loaded: The pipeline.
        place: Where the driver runs.
        scratch: Folder for the temporary files of a driver on this machine.

    Raises:
        InputError: An extension can't be loaded.
    """
    hdfs = {f"spark.hadoop.{name}": value for name, value in loaded.pipeline.hdfs.conf.items()}
    stores = {**_s3_conf(loaded, place), **_stores_conf(_paths(loaded))}
    disk = ON_DISK if has_local_checkpoint(loaded) else {}
    return {**disk, **stores, **hdfs, **spark_conf(loaded, scratch)}


def has_local_checkpoint(loaded: LoadedPipeline) -> bool:
    """Return whether driver and tasks run on this machine, with the checkpoint on its disk."""
    settings = loaded.pipeline.spark
    is_here = settings.managed_by is None and settings.master.startswith("local")
    return is_here and loaded.state.is_local


def needs_own_jar(loaded: LoadedPipeline) -> bool:
    """Return whether the queries of a pipeline need :data:`spark_jobs.jvm.storage_jar.JAR`."""
    return has_local_checkpoint(loaded) or uses_store(loaded, "s3")


def _stores_conf(paths: list[str]) -> dict[str, str]:
    """Return the properties of Spark's clients of the stores that extensions add."""
    named = [each.spark_conf for each in items_added("stores") if each.spark_conf is not None]
    made = [resolve_name(name)(paths) for name in named]
    return {name: value for conf in made for name, value in conf.items()}


def _paths(loaded: LoadedPipeline) -> list[str]:
    """Return the globs of the sources, and the places of the state and of the target."""
    patterns = [
        pattern
        for source in loaded.pipeline.sources
        if isinstance(source, FileSource)
        for pattern in source.patterns
    ]
    return [*patterns, loaded.state.url, loaded.target.url]


def uses_store(loaded: LoadedPipeline, store: str) -> bool:
    """Return whether sources, state or target are in a store: ``s3``, ``azure`` or ``google``."""
    return any(path.startswith(_STORES[store]) for path in _paths(loaded))


def _s3_conf(loaded: LoadedPipeline, place: Place) -> dict[str, str]:
    """Return the properties of Hadoop's S3A for the pipeline's object store.

    S3A finds credentials as boto3 does; a driver follows changes of a credentials file
    (:func:`~spark_jobs.jvm.storage_jar.use_own_classes`).

    https://hadoop.apache.org/docs/r3.5.0/hadoop-aws/tools/hadoop-aws/connecting.html
    """
    if not uses_store(loaded, "s3"):
        return {}
    settings = loaded.pipeline.s3
    conf = {
        "aws.credentials.provider": DEFAULT_LOGIN,
        "endpoint.region": settings.region,
        "path.style.access": str(settings.path_style).lower(),
    }
    if settings.endpoint is not None:
        conf["endpoint"] = settings.endpoint
        conf["connection.ssl.enabled"] = str(settings.endpoint.startswith("https")).lower()
    named = {f"spark.hadoop.fs.s3a.{name}": value for name, value in conf.items()}
    # What the file leaves to the environment has to be the same where the driver reads it.
    for prefix in variable_prefixes(place)[-1:]:
        named[f"{prefix}AWS_REGION"] = settings.region
        if settings.endpoint is not None:
            named[f"{prefix}AWS_ENDPOINT_URL_S3"] = settings.endpoint
    is_written = any(each.url.startswith(_STORES["s3"]) for each in (loaded.state, loaded.target))
    return {**named, **(CONF if is_written else {})}


def store_names(loaded: LoadedPipeline) -> list[str]:
    """Return the object stores, such as ``s3``, whose jars a driver needs; empty for none."""
    return [name for name in _STORES if uses_store(loaded, name)]


def python_path(loaded: LoadedPipeline) -> str:
    """Return ``PYTHONPATH`` with the folders of a pipeline's code before those of this process."""
    paths = [*map(str, loaded.code), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(part for part in paths if part)
