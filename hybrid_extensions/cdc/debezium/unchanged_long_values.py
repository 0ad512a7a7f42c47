"""Placeholder of a long value (TOAST) that an update left: its forms; when a row can keep it.

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

from sources.common.conversion import BadValue
from sources.decoding.changes.record_keys import NEW_START

PLACEHOLDER = "__debezium_unavailable_value"
"""Default of the connector's ``unavailable.value.placeholder``."""
_HEX = "hex:"
_NO_DAYS = date(1970, 1, 1)
# Changes that refer to a row as it was before: what they lack, that row has.
_OF_A_ROW = ("u", "d")


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
        """Return whether a value is the placeholder, so that the log lacks the true value.

        False for None, and for a type in which Debezium writes none.
        """
        is_one = self._forms.get(type(raw))
        return is_one is not None and is_one(raw)

    def are(self, texts: pa.StringArray) -> pa.BooleanArray:
        """Return, for each text, whether it is the placeholder; false for nulls."""
        return pc.is_in(texts, pa.array(sorted(self._texts)))

    def _is_list(self, raw: list[Any]) -> bool:
        if len(raw) == 1 and isinstance(raw[0], str | bytes | UUID):
            return raw[0] in self._scalars
        return raw in self._lists


def require_kept(column: str, table: str, op: str, *, keeps: bool, is_long: bool) -> None:
    """Refuse a change that has a placeholder, unless the row that it changes keeps its value.

    It does if the pipeline declares so, the change refers to the row by the same key, and the
    column is of a type whose values may be long.

    Args:
        column: Name of the column that has the placeholder.
        table: Name of the database's table, with schema.
        op: Debezium's op of the change.
        keeps: Whether ``include`` has a column for the names of unchanged values.
        is_long: Whether values of the column's declared type may be long.

    Raises:
        BadValue: Contains the reason, and what to do.
    """
    if keeps and is_long and op in _OF_A_ROW:
        return
    full = f"run ALTER TABLE {table} REPLICA IDENTITY FULL"
    if op not in _OF_A_ROW:
        why = (
            " when it gave the row another key, so neither the log nor a row of that key contains "
            f"it: {full}, {NEW_START}"
        )
    elif keeps:
        why = (
            ", and a column of text, bytes, an array or a map only can keep the row's value: "
            f"declare `{column}` so, or {full}, {NEW_START}"
        )
    else:
        why = (
            ", so the log does not contain it: to keep the row's value, declare `include: "
            "{_unchanged: unchanged}` and `sink.unchanged: _unchanged` in a new generation; or "
            f"{full}, {NEW_START}"
        )
    reason = f"`{column}` is a long value (TOAST) that the update did not change{why}"
    raise BadValue(reason)
