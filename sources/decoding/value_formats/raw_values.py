"""Format ``raw``: the bytes of each value are a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from sources.common.schema import parse_schema
from sources.decoding.base import BaseReader, FieldReader
from sources.decoding.record_columns import RecordColumns
from sources.decoding.value_formats.base import ValueFormat

RAW_COLUMN = "value"
"""Name of the column with the bytes of the value."""


class RawReader(BaseReader):
    """Decoder of format ``raw``: the bytes of a value become its only field."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Return the bytes of a record's value, unchanged, as the single field ``value``."""
        return {RAW_COLUMN: value}


class RawValues(ValueFormat):
    """Bytes, which are kept as they are."""

    title = "Raw"
    parser = "none"
    own_columns: ClassVar[Mapping[str, str]] = {RAW_COLUMN: "binary"}

    format: Literal["raw"]

    def reader(self, _columns: RecordColumns) -> FieldReader:
        """Build the decoder of record values, which returns a value's bytes unchanged."""
        return RawReader()

    def check(self, columns: RecordColumns) -> None:
        """Refuse columns besides ``value``, which has the bytes, and those of ``include``.

        Args:
            columns: The declared columns.

        Raises:
            ValueError: There are others, or ``include`` has a column ``value``.
        """
        if RAW_COLUMN in columns.include:
            message = (
                f"`include.{RAW_COLUMN}`: `format: raw` has a column of this name, the "
                "record's bytes. Choose another name for the included column."
            )
            raise ValueError(message)
        schema = columns.value_schema(columns.columns or self.own_columns)
        if schema != parse_schema(self.own_columns):
            message = (
                "`format: raw` has one column next to those of `include`. Declare `schema: "
                f"{{{RAW_COLUMN}: binary}}`, or leave `schema` out."
            )
            raise ValueError(message)
