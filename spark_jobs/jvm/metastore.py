"""Recognition of Hive metastore errors in Spark's messages."""

from __future__ import annotations


def is_of_metastore(reason: str) -> bool:
    """Return whether a Spark error text means that the Hive metastore does not answer."""
    return "HiveMetaStoreClient" in reason or "TransportException" in reason
