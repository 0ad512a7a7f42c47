"""Decoding of single JSON objects, for samples, and which values do not fit a column's type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from sources.common.conversion import BadValue
from sources.decoding.base import BaseReader

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


class JsonReader(BaseReader):
    """Decoder of single JSON objects, for samples of a topic: for its plan, and at a hand-over.

    In a run Spark and Arrow parse JSON in batches.
    """

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Parse a JSON object into its members by name; empty for ``{}``.

        Of a name that is there twice the last value counts.

        Raises:
            BadValue: The value is not JSON, or not an object.
        """
        try:
            members = json.loads(value)
        except (ValueError, RecursionError) as error:
            reason = f"the value can't be read as JSON: {error}"
            raise BadValue(reason) from None
        if not isinstance(members, dict):
            reason = "the value is not a JSON object"
            raise BadValue(reason)
        return members

    def misfit(self, value: Any, kind: pa.DataType) -> str | None:
        """Describe a JSON member's value that does not fit a column type; else None.

        Such as ``number, as in 1.5``: its JSON type and the first 40 characters. None for null,
        too, and for an integer or a number where the column is a decimal or floating-point one.
        """
        if value is None or _fits_json(value, kind):
            return None
        return f"{_JSON_TYPES.get(type(value), 'object')}, as in {json.dumps(value)[:40]}"


def _fits_json(value: Any, kind: pa.DataType) -> bool:
    """Return whether Spark's ``from_json`` would read a member's Python value as a column type."""
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_timestamp(kind):
        return isinstance(value, str) and _parses(datetime.fromisoformat, value)
    if pa.types.is_date(kind):
        return isinstance(value, str) and _parses(date.fromisoformat, value)
    if pa.types.is_list(kind):
        return isinstance(value, list)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return isinstance(value, dict)
    return isinstance(value, str)


def _parses(parse: Any, text: str) -> bool:
    """Return whether a function parses a text without a ``ValueError``."""
    try:
        parse(text)
    except ValueError:
        return False
    return True
