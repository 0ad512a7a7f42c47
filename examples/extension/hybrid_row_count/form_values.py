"""Values as web forms send them, such as ``id=7&name=Ann``: each field is a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl

from sources.common.conversion import BadValue
from sources.decoding.base import BaseReader, FieldReader
from sources.decoding.record_columns import RecordColumns
from sources.decoding.value_formats.base import ValueFormat


class FormReader(BaseReader):
    """Decoder of such values; built in the driver, and sent to tasks."""

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Return the fields of a value.

        Raises:
            BadValue: It is not such a text, or has a field twice.
        """
        try:
            pairs = parse_qsl(
                value.decode(), keep_blank_values=True, strict_parsing=True, errors="strict"
            )
        except ValueError as error:
            reason = f"it is not the text of a form: {error}"
            raise BadValue(reason) from None
        found = dict(pairs)
        if len(found) < len(pairs):
            reason = "it has a field twice"
            raise BadValue(reason)
        return found


class FormValues(ValueFormat):
    """Texts of web forms."""

    title = "Form"

    format: Literal["form"]

    def reader(self, _columns: RecordColumns) -> FieldReader:
        """Build the decoder."""
        return FormReader()

    def check(self, columns: RecordColumns) -> None:
        """Refuse columns that are no texts.

        Raises:
            ValueError: A column has another type.
        """
        for name, kind in (columns.columns or {}).items():
            if name not in columns.include and kind != "string":
                message = (
                    f"`schema.{name}: {kind}`: fields of a form are texts. Declare `string`, and "
                    f"convert it in `select`, such as `CAST({name} AS {kind})`."
                )
                raise ValueError(message)


FORMATS: Mapping[str, type[ValueFormat]] = {"form": FormValues}
