"""Placeholders of unchanged long values (TOAST): the audit refuses one that became a value.

Only the bytes of Avro go through the runs' decoder.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sources.common.conversion import BadValue
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.registered_values import registered_values
from sources.decoding.schema_registry import Registry


class LackingValues:
    """Check that the connector's placeholder of a long, unchanged value is not taken for the value.

    Args:
        placeholder: The connector's ``unavailable.value.placeholder``, as it is declared.
        registry: Schema registry of changes in Avro; None for those in JSON.
    """

    def __init__(self, placeholder: str, registry: Registry | None = None) -> None:
        self._registry = registry
        _, is_hex, digits = placeholder.partition("hex:")
        data = bytes.fromhex(digits) if is_hex else placeholder.encode()
        text, coded = data.decode("utf-8", "replace"), base64.b64encode(data).decode()
        uuid = str(UUID(hashlib.md5(data, usedforsecurity=False).hexdigest(), version=3))
        numbers = [code if code < 128 else code - 256 for code in data]
        one = [text, coded, coded.translate(str.maketrans("+/", "-_")), data.hex(), uuid]
        pair = {text: text}
        forms = [*one, *([each] for each in one), numbers, [float(code) for code in numbers]]
        self._forms = {_json(each) for each in [*forms, pair, _json(pair)]}

    @classmethod
    def of_source(cls, source: KafkaSource) -> LackingValues | None:
        """Return the check for a source of changes; None for other sources."""
        if (table := source.changes) is None:
            return None
        return cls(table.unavailable_value_placeholder, table.registry)

    def refuse_placeholders(self, value: bytes, row: Mapping[str, Any]) -> None:
        """Refuse a row with a value where the change has a placeholder, before or after.

        Args:
            value: Bytes of the change, as the record has them.
            row: Values that the runs' decoder has made of it, by column.

        Raises:
            BadValue: Names the column.
            InputError: The schema registry refuses the login or the request.
            UnavailableError: The schema registry does not answer.
        """
        document = self._document(value)
        for side in (document.get("after"), document.get("before")):
            for name, member in (side or {}).items():
                if row.get(name) is not None and _json(member) in self._forms:
                    reason = f"`{name}`: a placeholder of the connector was taken for a value"
                    raise BadValue(reason)

    def _document(self, value: bytes) -> Mapping[str, Any]:
        if self._registry is not None:
            found: dict[str, Any] = registered_values().values(self._registry)(value)
            return found
        document: dict[str, Any] = json.loads(value)
        return document["payload"] if {"payload", "schema"} <= document.keys() else document


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=_as_text)


def _as_text(value: Any) -> str:
    """Return a value that JSON does not have as a text: bytes as base64, as the connector does."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
