"""Sets of jars: Maven packages, pins and excludes for Spark, its stores, a broker, Debezium.

What goes with Spark depends on its version (:mod:`~spark_jobs.jvm.spark_version`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sources.errors import InputError
from spark_jobs.jvm.spark_version import (
    JvmParts,
    installed_parts,
    minor_of,
    way_to_supported,
)


@dataclass(frozen=True)
class JarSet:
    """The JVM dependencies of one purpose, as Maven coordinates ``group:artifact:version``.

    Args:
        packages: Direct dependencies; their own dependencies are resolved too.
        pins: Exact versions of transitive dependencies, whatever the packages ask for.
        excludes: ``group:artifact`` or ``group:*`` that is never fetched.
    """

    packages: tuple[str, ...]
    pins: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


# PySpark's own `jars` folder has all of these, often newer: a second copy would be downloaded for
# nothing, and might come first on the class path.
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

# PySpark has these too, but the broker, which runs without PySpark, needs commons-logging. And the
# AWS SDK in one file of 690 MB, in place of which the modules below are fetched.
_OF_THE_AWS_SDK = (
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "io.netty:*",
    "org.apache.httpcomponents:*",
    "software.amazon.awssdk:bundle",
)

# PySpark has these, too. The rest is of the client that `wasbs://` had before.
_OF_AZURE = (
    "com.microsoft.azure:*",
    "commons-codec:commons-codec",
    "commons-logging:commons-logging",
    "org.apache.hadoop.thirdparty:hadoop-shaded-guava",
    "org.apache.httpcomponents:*",
)

_SDK_OF_S3A = (
    *("apache-client", "netty-nio-client", "s3", "s3-transfer-manager"),
    # Logins: single sign-on profiles (sso), roles and web identities (sts).
    *("sso", "sts"),
)

_SDK_OF_MSK = (
    *("annotations", "apache-client", "auth", "aws-core", "aws-json-protocol"),
    *("aws-query-protocol", "checksums", "checksums-spi", "endpoints-spi", "http-auth"),
    *("http-auth-aws", "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi"),
    *("identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles"),
    *("protocol-core", "regions", "retries", "retries-spi", "sdk-core", "sso", "sts"),
    *("third-party-jackson-core", "utils", "utils-lite"),
)

SETS: dict[str, JarSet] = {
    "broker": JarSet(
        packages=(
            "org.apache.kafka:kafka_2.13:4.3.1",
            # Kafka logs through slf4j 1.7; without a binding it dies without saying why.
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    # Some mirrors lack a file of Debezium 3.7.0.Final.
    "connect": JarSet(
        packages=(
            "org.apache.kafka:connect-runtime:4.3.1",
            "org.apache.kafka:connect-json:4.3.1",
            "io.debezium:debezium-connector-postgres:3.6.3.Final",
            "io.debezium:debezium-embedded:3.6.3.Final",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    # A set of its own: some mirrors lack a file of this connector's later versions, and all of a
    # worker's connectors share Debezium's core.
    "connect-mariadb": JarSet(
        packages=(
            "org.apache.kafka:connect-runtime:4.3.1",
            "org.apache.kafka:connect-json:4.3.1",
            "io.debezium:debezium-connector-mariadb:3.5.0.Final",
            "io.debezium:debezium-embedded:3.5.0.Final",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    "connect-mysql": JarSet(
        packages=(
            "org.apache.kafka:connect-runtime:4.3.1",
            "org.apache.kafka:connect-json:4.3.1",
            "io.debezium:debezium-connector-mysql:3.6.1.Final",
            "io.debezium:debezium-embedded:3.6.1.Final",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
}


def sets_with(parts: JvmParts) -> dict[str, JarSet]:
    """Return the declared sets of jars by name, in the versions that go with a Spark.

    Those of Spark and its stores come first. Sets that do not exist for that Spark are left out.

    Args:
        parts: Versions that go with the Spark that loads them.
    """
    sdk, hadoop = f":{parts.aws_sdk}", f":{parts.hadoop}"
    ssooidc = f"software.amazon.awssdk:ssooidc:{parts.ssooidc}"
    of_spark = {
        "spark": JarSet(
            packages=(
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:{parts.kafka}",
                parts.delta,
            ),
            pins=(f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{parts.token_provider}",),
            excludes=_IN_PYSPARK,
        ),
        # Hadoop's S3A depends on the whole AWS SDK in one file; it loads only these modules.
        "s3": JarSet(
            packages=(
                f"org.apache.hadoop:hadoop-aws{hadoop}",
                *(f"software.amazon.awssdk:{module}{sdk}" for module in _SDK_OF_S3A),
                ssooidc,
            ),
            excludes=(*_IN_PYSPARK, *_OF_THE_AWS_SDK),
        ),
        # Azure Data Lake Storage: 1.4 MB.
        "azure": JarSet(
            packages=(f"org.apache.hadoop:hadoop-azure{hadoop}",),
            excludes=(*_IN_PYSPARK, *_OF_AZURE),
        ),
        # Google Cloud Storage: one jar of 35 MB, with all that it depends on.
        "google": JarSet(packages=(f"org.apache.hadoop:hadoop-gcp{hadoop}",), excludes=_IN_PYSPARK),
        # Logins to Amazon MSK by IAM: 6 MB. The AWS SDK in the version of the set `s3`, which may
        # be on the same class path.
        "msk": JarSet(
            packages=("software.amazon.msk:aws-msk-iam-auth:2.3.5",),
            pins=(*(f"software.amazon.awssdk:{module}{sdk}" for module in _SDK_OF_MSK), ssooidc),
            excludes=(*_IN_PYSPARK, *_OF_THE_AWS_SDK, "org.apache.kafka:*"),
        ),
    }
    return {name: each for name, each in of_spark.items() if name not in parts.lacks} | SETS


def find_set(name: str) -> JarSet:
    """Return the Maven packages of a declared set of jars, such as ``spark``; nothing is fetched.

    Raises:
        InputError: There is no set of this name for the installed Spark, or that is not supported.
    """
    if name in SETS:
        return SETS[name]
    parts = installed_parts()
    if name in parts.lacks:
        message = f"JVM parts `{name}` do not exist for Spark {minor_of(parts.spark)}."
        hint = f"{way_to_supported()} Or declare nothing that needs them. Nothing was started."
        raise InputError(message, hint, value=name)
    every = sets_with(parts)
    if name not in every:
        message = f"There is no set of JVM parts named `{name}`."
        raise InputError(message, f"Name one of {', '.join(sorted(every))}.", value=name)
    return every[name]


def packages(set_name: str) -> str:
    """Return a set's packages as a value of ``spark.jars.packages``: coordinates with commas.

    For drivers in a container image, which download their jars themselves.

    The pins are left out: Spark would take the newer of the two versions, and an entry in
    ``spark.jars.excludes`` removes both. A cluster's repository must have the newer one.

    Raises:
        InputError: There is no set of this name for the installed Spark, or that is not supported.
    """
    return ",".join(find_set(set_name).packages)


def excludes(*set_names: str) -> str:
    """Return the value of ``spark.jars.excludes`` that goes with the ``packages`` of these sets.

    Spark has one list for all packages, so the excludes of all sets are combined.

    Raises:
        InputError: There is no set of one of these names for the installed Spark, or that is not
            supported.
    """
    names = (exclude for name in set_names for exclude in find_set(name).excludes)
    return ",".join(dict.fromkeys(names))
