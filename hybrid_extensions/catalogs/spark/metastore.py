"""Recognition of Hive metastore errors in Spark's messages."""

from __future__ import annotations


def is_of_metastore(reason: str) -> bool:
    """Return whether a Spark error's text means that the Hive metastore does not answer.

    Then waiting may help; other errors of a catalog are mistakes in its settings.
    """
    return "HiveMetaStoreClient" in reason or "TransportException" in reason
