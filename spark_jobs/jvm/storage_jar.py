"""Jar of this project's Java classes: checkpoints on a disk, conditional writes to S3, the login.

Of two drivers that write the same file, one fails. ``python -m spark_jobs.jvm.storage_jar`` builds
it again, which needs a JDK.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.jvm.jars import resolve
from spark_jobs.jvm.own_jar import OwnJar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAR = OwnJar(
    Path(__file__).with_name("storage"),
    "hybrid-storage.jar",
    "hybridbackfill/storage",
    "Without it, checkpoints and Delta logs in S3 are not safe: of two drivers that meet, one "
    "would lose its commits silently. Nothing was started.",
)
"""The jar, which queries in S3 and on a disk of this machine need."""
ON_DISK = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "hybridbackfill.storage.LocalCheckpointFileManager"
    ),
}
"""Spark properties of a query on this machine whose checkpoint is on a disk of it."""
LOG_STORE = "spark.delta.logStore.s3a.impl"
CONF = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "hybridbackfill.storage.ConditionalCheckpointFileManager"
    ),
    LOG_STORE: "hybridbackfill.storage.ConditionalLogStore",
    # What these would check first is not needed: objects are whole, and have no folders.
    "spark.hadoop.fs.s3a.performance.flags": "create,mkdir,delete",
}
"""Spark properties of a query whose checkpoint or target is in S3."""
_LOGIN = "spark.hadoop.fs.s3a.aws.credentials.provider"
DEFAULT_LOGIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""Where Spark finds the login to an object store unless the pipeline declares something else."""
FOLLOWING_LOGIN = "hybridbackfill.storage.FollowingCredentialsProvider"
"""The same places, but a credentials file that is rewritten is read again."""


def use_own_classes(spark: SparkSession) -> None:
    """Make S3A use this project's classes, in this driver and in its tasks.

    Call it once the session is made. Commits of a Delta log in S3 are then read once each, if the
    query uses :data:`CONF`; and a credentials file that is rewritten is followed, if S3A looks
    where :data:`DEFAULT_LOGIN` does. These are no properties of the launch, as executors fetch
    files, which may be in S3, before jars.

    Args:
        spark: The driver's session, which has read nothing from S3 yet.
    """
    java: Any = spark.sparkContext._jsc
    given, conf = spark.sparkContext.getConf(), java.hadoopConfiguration()
    if given.contains(LOG_STORE):
        conf.set("fs.s3a.impl", "hybridbackfill.storage.LogCachingFileSystem")
    if given.get(_LOGIN) == DEFAULT_LOGIN:
        conf.set(_LOGIN.removeprefix("spark.hadoop."), FOLLOWING_LOGIN)


def class_path() -> list[str]:
    """Return the jars of Spark, Hadoop and Delta that a query has, which the sources need.

    Raises:
        InputError: Java is missing, a jar can't be downloaded, the cache folder can't be written,
            or the folder named in ``HYBRID_JARS`` lacks a set.
    """
    pyspark = importlib.util.find_spec("pyspark")
    spark = "" if pyspark is None else str(Path(str(pyspark.origin)).with_name("jars"))
    return [f"{spark}/*", *map(str, (*resolve("spark"), *resolve("s3")))]


if __name__ == "__main__":
    JAR.build(class_path())
