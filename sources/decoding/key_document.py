"""JSON in the key of a Kafka record."""

from __future__ import annotations

from typing import Any

import orjson


def key_document(key: bytes) -> Any:
    """Parse a key, without the schema that Kafka Connect's converter may put around it.

    Raises:
        ValueError: The key is not JSON.
    """
    document = orjson.loads(key)
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document
