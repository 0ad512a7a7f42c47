"""Interface of decoders of record values: one by one, or in batches that leave some undecided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from sources.common.conversion import BadValue, converter, short_repr
from sources.errors import InputError


class DifferentColumnsError(InputError):
    """Error of a value whose columns, or types, differ from the declared ones; subclasses say how.

    A run may follow them (``on_schema_change``), so that a plan does not refuse a sample for them.
    """


class FieldReader(Protocol):
    """Interface of a decoder of record values; built on the driver and pickled to Spark's workers.

    One implementation for each format.
    """

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Decode one value into its fields by name, before they are converted to column types.

        Called in tasks for values that are not decoded in batches, and on the driver for samples.

        Raises:
            BadValue: The value can't be decoded.
            InputError: The schema registry refuses the login or the request, or the columns of a
                Debezium table are not those that are declared.
            UnavailableError: The schema registry does not answer.
        """

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Decode many values at once into structs with one field per column.

        A row that is not null equals what :meth:`fields` gives, converted to the columns' types.
        A null row is undecided: the caller has to decode that value with :meth:`fields`.

        No value is refused here: what is bad, or can't be decoded because the schema registry does
        not answer, becomes a null row, and :meth:`fields` raises the error.

        Returns:
            An array as long as the values; None if these columns can't be decoded in batches.
        """

    def misfit(self, value: Any, kind: pa.DataType) -> str | None:
        """Describe a field's value that does not fit a column type.

        Used on a sample of a topic, to show declared and actual types side by side.

        Returns:
            The value as a phrase, such as ``such as 'x'``; None if the value fits, as null does.
        """


class BaseReader:
    """Base of decoders of record values; decodes no batches unless :meth:`rows` is overridden."""

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Return None: there is no batch decoding, so that each value is decoded on its own."""

    def misfit(self, value: Any, kind: pa.DataType) -> str | None:
        """Describe a field's value that does not fit a column type; None if the value fits.

        Such as ``such as 'x'``, to compare a sample with the declared types.
        """
        try:
            converter(kind)(value)
        except BadValue:
            return f"such as {short_repr(value)}"
        return None
