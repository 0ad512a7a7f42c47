"""Columns that a table got after its snapshot was taken, and what rows from before hold in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import pyarrow as pa
from pydantic import BeforeValidator, model_validator

from sources.common.fields import Declared
from sources.common.schema import parse_type
from sources.decoding.conversion import BadValue, fitter


class AddedColumn(Declared):
    """A column that was added.

    Attributes:
        type: Its Spark SQL type.
        default: What rows from before hold: the column's constant default. Null, if left out.
            PostgreSQL tells of no change when it adds a column, whatever rows hold then.

    """

    type: str
    default: bool | int | float | str | datetime | date | None = None

    @model_validator(mode="after")
    def _default_fits(self) -> AddedColumn:
        # Asked for both that it is a type, and that the default is of it.
        _ = self.value
        return self

    @property
    def value(self) -> Any:
        """The default, as a decoded record would have it.

        Raises:
            ValueError: It does not fit the type.
        """
        kind = parse_type(self.type)
        try:
            return fitter(kind)(_parsed(self.default, kind))
        except (BadValue, ValueError, InvalidOperation):
            message = f"`default: {self.default}` is no {self.type}"
            raise ValueError(message) from None


def types_of(added: Mapping[str, AddedColumn]) -> dict[str, str]:
    """Names and Spark SQL types."""
    return {name: column.type for name, column in added.items()}


def _parsed(raw: Any, kind: pa.DataType) -> Any:
    """What YAML has no literal for, from text."""
    if pa.types.is_decimal(kind) and isinstance(raw, str | float):
        return Decimal(str(raw))
    if pa.types.is_timestamp(kind) and isinstance(raw, str):
        return datetime.fromisoformat(raw)
    if pa.types.is_date(kind) and isinstance(raw, str):
        return date.fromisoformat(raw)
    return raw


def _spelled_out(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


Added = Annotated[AddedColumn, BeforeValidator(_spelled_out)]
"""As people write it: the type alone, or with a default."""
