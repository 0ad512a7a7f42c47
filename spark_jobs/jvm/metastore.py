"""How errors of the Hive client in Spark's JVM are recognized."""

from __future__ import annotations


def is_of_metastore(reason: str) -> bool:
    """Return whether the text of Spark's error means that the Hive metastore does not answer."""
    return "HiveMetaStoreClient" in reason or "TransportException" in reason
