"""What takes the values of a topic's records apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from sources.decoding.conversion import BadValue, fitter, shown


class FieldReader(Protocol):
    """Takes values apart; made once, then sent to Spark's workers."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """All fields of a value, before they are fitted to columns.

        Raises:
            BadValue: It can't be read.
            InputError: What is needed to read it can't be had.
        """

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Columns of many values at once; None, or null, is to be read value by value.

        Where there is a row, it is what :meth:`fields` would give, fitted to the columns.

        Raises:
            InputError: What is needed to read them can't be had.
        """

    def misfit(self, found: Any, kind: pa.DataType) -> str | None:
        """What a field holds instead, in words, if it does not fit a column's type."""


class Typed:
    """A reader whose fields have Python's types, value by value."""

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """None at all."""

    def misfit(self, found: Any, kind: pa.DataType) -> str | None:
        """What a field holds instead, in words, if it does not fit a column's type."""
        try:
            fitter(kind)(found)
        except BadValue:
            return f"{type(found).__name__}, as in {shown(found)}"
        return None
