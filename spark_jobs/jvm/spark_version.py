"""Supported versions of Spark, which is installed (`SPARK_HOME`), and the packages for each.

Whether a checkpoint may be continued by another version is decided in
:mod:`spark_jobs.checkpoint.transform_compatibility`.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sources.errors import InputError

# Vendors append to the version: `spark-core_2.13-4.1.0-amzn-1.jar`.
_CORE = re.compile(r"spark-core_[\d.]+-((\d+\.\d+)\.\S+)\.jar")


@dataclass(frozen=True)
class JvmParts:
    """Versions of the Maven packages that match a version of Spark.

    Attributes:
        spark: The PySpark that the tests run with; others of its minor version are accepted.
        kafka: Spark's Kafka connector.
        token_provider: The Kafka connector's token provider, whatever the connector asks for.
        delta: Delta Lake, as Maven coordinates: its artifact has Spark's version in its name.
        hadoop: The Hadoop that this Spark contains, for the clients of object stores.
        aws_sdk: The AWS SDK that this Hadoop's S3A was built with.
        ssooidc: Its module for single sign-on.
        lacks: Names of the sets of jars that do not exist for this Spark.
    """

    spark: str
    kafka: str
    token_provider: str
    delta: str
    hadoop: str
    aws_sdk: str
    ssooidc: str
    lacks: tuple[str, ...] = ()


DEFAULT = "4.2"
SUPPORTED: dict[str, JvmParts] = {
    DEFAULT: JvmParts(
        spark="4.2.1",
        kafka="4.2.0",
        # Some mirrors lack version 4.2.0. This one was tried with the connector 4.2.0, in plain
        # text and with SASL/PLAIN.
        token_provider="4.0.0",
        delta="io.delta:delta-spark_4.2_2.13:4.4.0",
        hadoop="3.5.0",
        aws_sdk="2.35.4",
        # Some mirrors lack its version 2.35.4.
        ssooidc="2.35.1",
    ),
    "4.1": JvmParts(
        spark="4.1.4",
        kafka="4.1.3",
        # Some mirrors lack later ones.
        token_provider="4.1.1",
        delta="io.delta:delta-spark_4.1_2.13:4.4.0",
        hadoop="3.4.2",
        aws_sdk="2.29.52",
        ssooidc="2.29.52",
        # Hadoop has a client of Google's store since 3.5.0, and MSK's login needs a later SDK.
        lacks=("google", "msk"),
    ),
}
"""The supported versions of Spark, by minor version."""


def spark_home() -> Path:
    """Return the folder of the Spark installation: ``SPARK_HOME``, else the one inside PySpark.

    Whether ``SPARK_HOME`` exists is not checked.

    Raises:
        InputError: ``SPARK_HOME`` is not set, and PySpark is not installed.
    """
    if named := os.environ.get("SPARK_HOME"):
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        message = (
            "Spark was not found: PySpark is not installed in this Python, and the environment "
            "variable `SPARK_HOME` is not set."
        )
        hint = "Run `pip install pyspark`, or set `SPARK_HOME` to the folder of a Spark."
        raise InputError(message, hint, value="pyspark")
    return Path(spec.origin).parent


def installed_parts() -> JvmParts:
    """Return the versions of the JVM parts that go with the installed Spark.

    Those of the default version where no Spark with jars is installed: jars of the cache, or of a
    folder that was handed in, can be named without one.

    Raises:
        InputError: The installed version is not supported.
    """
    try:
        home = spark_home()
    except InputError:
        return SUPPORTED[DEFAULT]
    version = version_at(home)
    return SUPPORTED[DEFAULT] if version is None else parts_of(version, f"in {home}")


def version_at(home: Path) -> str | None:
    """Return the version of a Spark installation, such as ``4.2.1``; None if it has no jars.

    Read from the name of its core's jar, which PySpark and a cluster's distribution both have.

    Args:
        home: Folder of the installation.
    """
    found = (_CORE.fullmatch(path.name) for path in (home / "jars").glob("spark-core_*.jar"))
    return next((each[1] for each in found if each is not None), None)


def parts_of(version: str, where: str) -> JvmParts:
    """Return the versions of the JVM parts that go with a version of Spark.

    Args:
        version: The version, such as ``4.2.1``.
        where: Where this Spark is, for the error; continues "Spark 4.0.1 …".

    Raises:
        InputError: The version of Spark is not supported.
    """
    if (minor := minor_of(version)) in SUPPORTED:
        return SUPPORTED[minor]
    supported = " and ".join(each.spark for each in SUPPORTED.values())
    message = (
        f"Spark {version} {where} is not supported: checkpoints, the Kafka connector and Delta "
        f"depend on Spark's version, and were tried with {supported} only. Nothing was read or "
        "written."
    )
    hint = f"{way_to_supported()} On a cluster, use an image or a release that contains it."
    raise InputError(message, hint, value=version)


def way_to_supported() -> str:
    """Return how to get the newest supported Spark on this machine, as a sentence."""
    newest = SUPPORTED[DEFAULT].spark
    pip = "" if os.environ.get("SPARK_HOME") else f"Run `pip install pyspark=={newest}`. Or: "
    return f"{pip}Set `SPARK_HOME` to the folder of a Spark {newest}."


def require_launched(version: str, launched: str | None) -> None:
    """Refuse a driver whose Spark is unsupported, or differs from that of its launch.

    The launch chose the JVM parts by its own Spark; a cluster or an image may have another one.

    Args:
        version: Version of the Spark that runs the driver.
        launched: Version of the Spark that the driver was launched for; None if that is unknown.

    Raises:
        InputError: The version is not supported, or its minor version is not the launch's.
    """
    parts_of(version, "of this driver")
    if launched is not None and minor_of(version) != minor_of(launched):
        message = (
            f"This driver runs Spark {version}, but it was launched for Spark {launched}, whose "
            "JVM parts were handed to it. Nothing was read or written."
        )
        hint = (
            f"Use an image or a cluster with Spark {minor_of(launched)}, or launch with Spark "
            f"{minor_of(version)} (`SPARK_HOME`)."
        )
        raise InputError(message, hint, value=version)


def minor_of(version: str) -> str:
    """Return the minor version that a version of Spark belongs to: ``4.2`` for ``4.2.1``."""
    return ".".join(version.split(".")[:2])
