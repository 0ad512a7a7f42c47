"""Types of fields: names that are reserved, times with a zone, columns that differ only in case."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
)
from pydantic.fields import FieldInfo

from sources.common.schema import alike_names, parse_schema
from sources.errors import InputError

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_RESERVED = ("plan", "progress", "ranges", "table")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or value in _RESERVED or value.endswith("_handover"):
        reserved = ", ".join(f"`{name}`" for name in _RESERVED)
        message = (
            f"`{value}` can't be a name. Use lower case letters, digits and underscores, starting "
            f"with a letter; {reserved}, and names that end in `_handover`, are taken by the "
            "pipeline's own assets."
        )
        raise ValueError(message)
    return value


def _columns(value: dict[str, str]) -> dict[str, str]:
    parse_schema(value)
    if (alike := alike_names(value)) is not None:
        message = (
            f"columns `{alike[0]}` and `{alike[1]}` differ only in upper and lower case, which "
            "Spark does not tell apart. Remove one of them."
        )
        raise ValueError(message)
    return value


def _no_number(value: Any) -> Any:
    if re.fullmatch(r"[-+]?\d+(\.\d+)?", str(value)):
        # Pydantic would take 20240131 for a day of 1970.
        message = f"`{value}` is a number, not a time. Write one such as 2024-01-31T00:00:00Z."
        raise ValueError(message)
    return value


def _instant(value: datetime) -> datetime:
    if value.tzinfo is None:
        message = (
            f"`{value.isoformat()}` needs a time zone. Write {value.isoformat()}Z for UTC, or an "
            "offset such as +02:00 at the end."
        )
        raise ValueError(message)
    return value.astimezone(UTC)


def or_text(kind: type[BaseModel], field: str) -> BeforeValidator:
    """Return a validator for a model, in whose place a text stands for one with that field alone.

    What is no text passes to the model unchanged.

    Args:
        kind: The model.
        field: Name of the field that the text is a value of.
    """
    return BeforeValidator(
        lambda value: {field: value} if isinstance(value, str) else value,
        json_schema_input_type=kind | str,
    )


def _sequence(value: Any) -> Any:
    """Convert a PostgreSQL log sequence number (``pg_lsn``) to an integer."""
    if isinstance(value, str) and (match := _LSN.fullmatch(value)):
        return (int(match[1], 16) << 32) + int(match[2], 16)
    return value


def check_name(name: str) -> None:
    """Refuse a text that can't be the name of a pipeline or a source.

    Names become folders, and Dagster assets next to ``plan`` and ``<source>_handover``.

    Args:
        name: The text.

    Raises:
        InputError: It has other characters than lower case letters, digits and underscores, does
            not start with a letter, is reserved (such as ``plan``), or ends in ``_handover``.
    """
    try:
        _name(name)
    except ValueError as error:
        hint = "Choose another name, such as `orders_2024`."
        raise InputError(str(error), hint, value=name) from None


def parse_instant(text: str) -> datetime:
    """Return an instant in UTC from a text of a command line or form.

    Args:
        text: ISO 8601 time with a zone, or a date such as ``2024-01-31``, which means midnight UTC.

    Raises:
        InputError: The text is not such a time or date, or the time has no zone.
    """
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        return TypeAdapter(Instant).validate_python(text)
    except ValueError:
        message = f"`{text}` is not a time with a time zone, nor a date."
        hint = "Write 2024-01-31 (midnight, UTC), or 2024-01-31T12:00:00Z."
        raise InputError(message, hint, value=text) from None


Instant = Annotated[datetime, BeforeValidator(_no_number), AfterValidator(_instant)]
"""Time with a time zone, converted to UTC; one without a zone is refused, and so is a number."""
Sequence = Annotated[int, BeforeValidator(_sequence)]
"""Log position of a database: an integer, or a PostgreSQL LSN such as ``16/B374D848``."""
Reference = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
"""Reference to a function, as ``module:function``."""
Name = Annotated[str, AfterValidator(_name)]
"""Name of a pipeline or source, by the rules of :func:`check_name`."""
AssetName = Annotated[str, Field(pattern=r"^[^/\s]+(/[^/\s]+)*$")]
"""Key of a Dagster asset, its parts joined by slashes: ``raw/orders``."""
Columns = Annotated[dict[str, str], AfterValidator(_columns)]
"""Spark SQL type by column name; names that differ only in case are refused."""


class Declared(BaseModel):
    """Base of all models of the YAML file: immutable, and unknown fields are refused.

    Validation errors of Pydantic do not print the input, as it may contain a password.
    """

    # Pydantic's own message would print the input, passwords included.
    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    @classmethod
    def written(cls) -> dict[str, FieldInfo]:
        """Return the model's fields by their names in the YAML file: the alias, if it has one."""
        fields = cls.model_fields.items()
        return {str(info.validation_alias or name): info for name, info in fields}
