"""Declaration of columns that were added to a table after its snapshot, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import pyarrow as pa
from pydantic import model_validator

from sources.common.conversion import BadValue, converter
from sources.common.fields import Declared, or_text
from sources.common.schema import parse_type


class AddedColumn(Declared):
    """A column that was added to a table after its snapshot was taken.

    Attributes:
        type: Its Spark SQL type.
        default: Constant default of the column, which rows from before hold; null if left out.
            PostgreSQL publishes no change when it adds a column, so it has to be declared.
    """

    type: str
    default: bool | int | float | str | datetime | date | None = None

    @model_validator(mode="after")
    def _default_fits(self) -> AddedColumn:
        # The property raises if the type is unknown or the default does not fit it.
        _ = self.value
        return self

    @property
    def value(self) -> Any:
        """The declared default, as the column of older rows holds it; None without a default.

        Computed at each access: converted to the column's type as a decoded record's field would
        be.

        Raises:
            ValueError: The default does not fit the type, or the type is unknown.
        """
        kind = parse_type(self.type)
        try:
            return converter(kind)(_parsed(self.default, kind))
        except (BadValue, ValueError, InvalidOperation):
            message = (
                f"`default: {self.default}` is not a valid {self.type}. Write a {self.type}, or "
                "correct the `type`."
            )
            raise ValueError(message) from None


def types_of(added: Mapping[str, AddedColumn]) -> dict[str, str]:
    """Return the declared Spark SQL type of each added column by name; empty without any."""
    return {name: column.type for name, column in added.items()}


def _parsed(raw: Any, kind: pa.DataType) -> Any:
    """Parse the default of a decimal, timestamp or date column, for which YAML has no literal."""
    if pa.types.is_decimal(kind) and isinstance(raw, str | float):
        return Decimal(str(raw))
    if pa.types.is_timestamp(kind) and isinstance(raw, str):
        return datetime.fromisoformat(raw)
    return date.fromisoformat(raw) if pa.types.is_date(kind) and isinstance(raw, str) else raw


AddedColumnOrType = Annotated[AddedColumn, or_text(AddedColumn, "type")]
"""An added column as the YAML has it: its type alone, or type and default."""
