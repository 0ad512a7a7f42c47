"""Debezium's placeholder for a long value (TOAST) that an update did not change.

The connector fits ``unavailable.value.placeholder`` to the type of each column:
https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-toasted-values
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pyarrow.compute as pc

PLACEHOLDER = "__debezium_unavailable_value"
"""Default of the connector's ``unavailable.value.placeholder``."""
_HEX = "hex:"
_NO_DAYS = date(1970, 1, 1)


class Placeholder:
    """Recognizes a connector's placeholder for a value that is missing in the log, in all forms.

    Args:
        declared: The connector's ``unavailable.value.placeholder``: a text, or ``hex:`` and bytes
            as digits.

    Raises:
        ValueError: What follows ``hex:`` is not an even number of hexadecimal digits.
    """

    def __init__(self, declared: str = PLACEHOLDER) -> None:
        is_hex = declared.startswith(_HEX)
        data = bytes.fromhex(declared.removeprefix(_HEX)) if is_hex else declared.encode()
        text = data.decode(errors="replace")
        # Java's `UUID.nameUUIDFromBytes`.
        uuid = UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
        self._map = {text: text}
        self._texts = {
            text,
            str(uuid),
            # Bytes in JSON, and with each `binary.handling.mode`.
            base64.b64encode(data).decode(),
            base64.urlsafe_b64encode(data).decode(),
            data.hex(),
            # `hstore.handling.mode=json`.
            orjson.dumps(self._map).decode(),
        }
        self._scalars = {*self._texts, data, uuid}
        # Java's bytes are signed; arrays of numbers and of dates get them one by one.
        codes = [code - 256 if code > 127 else code for code in data]
        self._lists = (codes, [_NO_DAYS + timedelta(days=code) for code in codes])
        self._forms: Mapping[type, Callable[[Any], bool]] = {
            **dict.fromkeys((str, bytes, UUID), self._scalars.__contains__),
            dict: self._map.__eq__,
            list: self._is_list,
        }

    def stands_for(self, raw: Any) -> bool:
        """Return whether a value is the placeholder, so that the log lacks the true value."""
        is_one = self._forms.get(type(raw))
        return is_one is not None and is_one(raw)

    def are(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Return, for each text, whether it is the placeholder; false for nulls."""
        return pc.is_in(texts, pa.array(sorted(self._texts)))

    def _is_list(self, raw: list[Any]) -> bool:
        if len(raw) == 1 and isinstance(raw[0], str | bytes | UUID):
            return raw[0] in self._scalars
        return raw in self._lists
