"""Values that a change of PostgreSQL lacks, found in its JSON by code that the runs do not use."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sources.common.conversion import BadValue
from sources.config.kafka_source import KafkaSource
from sources.decoding.value_formats.debezium_values import DebeziumValues


class LackingValues:
    """Check that no placeholder of a long value is taken for the value.

    Args:
        placeholder: The connector's ``unavailable.value.placeholder``, as it is declared.
    """

    def __init__(self, placeholder: str) -> None:
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
        """Return the check for a source of changes in JSON; None for any other."""
        value = source.value
        if not isinstance(value, DebeziumValues) or value.registry is not None:
            return None
        return cls(value.unavailable_value_placeholder)

    def require_none(self, value: bytes, row: Mapping[str, Any]) -> None:
        """Refuse a row with a value in a column for which the change has a placeholder.

        Args:
            value: The change.
            row: What it was decoded to.

        Raises:
            BadValue: Contains the column.
        """
        document = json.loads(value)
        if "payload" in document and "schema" in document:
            document = document["payload"]
        for side in (document.get("after"), document.get("before")):
            for name, member in (side or {}).items():
                if row.get(name) is not None and _json(member) in self._forms:
                    reason = f"`{name}`: a placeholder of the connector was taken for a value"
                    raise BadValue(reason)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
