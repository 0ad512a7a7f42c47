"""Key of a Kafka record as JSON, without the schema that Kafka Connect may put around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson


def key_document(key: bytes, parse: Callable[[bytes], Any] = orjson.loads) -> Any:
    """Parse a record's key as JSON, without the schema that Kafka Connect may put around it.

    Returns a value of any JSON type; None for the text ``null``.

    Args:
        key: The key.
        parse: Parser of JSON.

    Raises:
        ValueError: The key is not JSON.
    """
    document = parse(key)
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        return document["payload"]
    return document
