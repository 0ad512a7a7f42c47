"""How a job is handed to Spark: the command, its settings and its environment."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sources.document import LoadedPipeline
from sources.file_source import FileSource
from sources.state import Generation
from spark_jobs.jars import resolve
from spark_jobs.java import require_java

_HERE = Path(__file__).parent


def scratch_folder(generation: Generation, launch_id: str) -> Path:
    """Temporary files of one launch."""
    return Path(tempfile.gettempdir()) / f"hybrid-{generation.info.transaction_id}-{launch_id}"


def scratch_folders(generation: Generation) -> list[Path]:
    """Those of a generation that are there: a launch that was killed leaves its own."""
    return list(Path(tempfile.gettempdir()).glob(scratch_folder(generation, "*").name))


def spark_conf(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """Spark's properties for a pipeline; those that it declares come last and win."""
    settings = loaded.pipeline.spark
    log4j = (_HERE / "log4j2.properties").as_uri()
    conf = {
        "spark.master": settings.master,
        "spark.app.name": f"hybrid {loaded.pipeline.name}",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": (
            f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={log4j}"
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # State and target lie on this machine, whatever HADOOP_CONF_DIR takes for the default.
        "spark.hadoop.fs.defaultFS": "file:///",
        "spark.ui.showConsoleProgress": "false",
        # Streaming plans print the options of their sources, logins included.
        "spark.sql.redaction.options.regex": "(?i)url|kafka[.](ssl|sasl)",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Files without a zone, and dates, mean UTC everywhere in the project.
        "spark.sql.session.timeZone": "UTC",
        # The default of 50 costs seconds for logs as small as a plan's.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    if settings.master.startswith("local"):
        # No look-up of this machine's name, and nothing listens beyond it.
        conf["spark.driver.bindAddress"] = conf["spark.driver.host"] = "127.0.0.1"
        # The first run fixes this for the life of the checkpoint; Spark's 200 suit a cluster.
        conf["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    return {**conf, **settings.conf}


def spark_home() -> Path:
    """The Spark inside PySpark, unless ``SPARK_HOME`` names another."""
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def command(
    loaded: LoadedPipeline, generation: Generation, sources: Sequence[str], launch_id: str
) -> list[str]:
    """The ``spark-submit`` command that runs sources of a pipeline, one after the other."""
    hdfs = {f"spark.hadoop.{name}": value for name, value in loaded.pipeline.hdfs.conf.items()}
    scratch = scratch_folder(generation, launch_id)
    conf = {**_s3_conf(loaded), **hdfs, **spark_conf(loaded, scratch)}
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    sets = ["spark", "s3"] if _uses_s3(loaded) else ["spark"]
    jars = ",".join(str(jar) for name in sets for jar in resolve(name))
    return [
        str(spark_home() / "bin" / "spark-submit"),
        *settings,
        "--jars",
        jars,
        str(_HERE / "job.py"),
        "--pipeline",
        str(loaded.path),
        *(part for name in sources for part in ("--source", name)),
        "--launch-id",
        launch_id,
    ]


def _uses_s3(loaded: LoadedPipeline) -> bool:
    return any(
        pattern.startswith(("s3://", "s3a://"))
        for source in loaded.pipeline.sources
        if isinstance(source, FileSource)
        for pattern in source.patterns
    )


def _s3_conf(loaded: LoadedPipeline) -> dict[str, str]:
    """Hadoop's client as the pipeline's object store needs it; it finds logins as boto3 does.

    https://hadoop.apache.org/docs/r3.5.0/hadoop-aws/tools/hadoop-aws/connecting.html
    """
    if not _uses_s3(loaded):
        return {}
    settings = loaded.pipeline.s3
    conf = {
        "aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
        "endpoint.region": settings.region,
        "path.style.access": str(settings.path_style).lower(),
    }
    if settings.endpoint is not None:
        conf["endpoint"] = settings.endpoint
        conf["connection.ssl.enabled"] = str(settings.endpoint.startswith("https")).lower()
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in conf.items()}


def environment(loaded: LoadedPipeline, scratch: Path) -> dict[str, str]:
    """The job's environment: this Python for driver and workers, transforms importable.

    Raises:
        InputError: There is no Java, or too old a one.
    """
    java = require_java()
    paths = [str(loaded.folder), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "JAVA_HOME": os.environ.get("JAVA_HOME") or str(java.resolve().parent.parent),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(part for part in paths if part),
        "TMPDIR": str(scratch),
    }
