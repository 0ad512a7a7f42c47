"""Types of fields in declarations (names, durations, instants, columns), and their parsers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from sources.common.schema import alike_names, parse_schema
from sources.errors import InputError

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DURATION = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|min|minutes?|h|hours?|d|days?)"
)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_UNIT_MS = {"ms": 1, "mi": 60_000, "s": 1_000, "h": 3_600_000, "d": 86_400_000}
_RESERVED = ("plan", "progress", "ranges", "table")


def _duration(value: Any) -> Any:
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip().lower())):
        unit = match[2]
        if unit.startswith("milli"):
            factor = 1
        else:
            factor = next(ms for key, ms in _UNIT_MS.items() if unit.startswith(key))
        span_ms = Decimal(match[1]) * factor
        if span_ms != int(span_ms):
            message = (
                f"`{value}` is not a whole number of milliseconds, the smallest unit of a duration."
            )
            raise ValueError(message)
        try:
            return timedelta(milliseconds=int(span_ms))
        except OverflowError:
            message = f"`{value}` is longer than the longest duration, some 2.7 million years."
            raise ValueError(message) from None
    return value


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


def _instant(value: datetime) -> datetime:
    if value.tzinfo is None:
        message = (
            f"`{value.isoformat()}` needs a time zone. Write {value.isoformat()}Z for UTC, or an "
            "offset such as +02:00 at the end."
        )
        raise ValueError(message)
    return value.astimezone(UTC)


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


def parse_duration(text: str) -> timedelta:
    """Return a duration from a text of a command line or form, such as ``10 min``.

    Args:
        text: Number and unit (ms, s, min, h or d), such as ``1.5 h``; ISO 8601 such as ``PT10M``
            also works.

    Raises:
        InputError: The text is not a duration, is negative, is no whole number of milliseconds, or
            is longer than a duration of Python can be.
    """
    try:
        return TypeAdapter(Duration).validate_python(text)
    except ValidationError as error:
        reason = error.errors()[0].get("ctx", {}).get("error")
        message = str(reason) if isinstance(reason, ValueError) else f"`{text}` is not a duration."
        hint = "Write 90 s, 10 min or 1.5 h: a number, and ms, s, min, h or d."
        raise InputError(message, hint, value=text) from None


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


Instant = Annotated[datetime, AfterValidator(_instant)]
"""Time with a time zone, converted to UTC; one without a zone is refused."""
Sequence = Annotated[int, BeforeValidator(_sequence)]
"""Log position of a database: an integer, or a PostgreSQL LSN such as ``16/B374D848``."""
Reference = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
"""Reference to a function, as ``module:function``."""
Name = Annotated[str, AfterValidator(_name)]
"""Name of a pipeline or source, by the rules of :func:`check_name`."""
AssetName = Annotated[str, Field(pattern=r"^[^/\s]+(/[^/\s]+)*$")]
"""Key of a Dagster asset, its parts joined by slashes: ``raw/orders``."""
Duration = Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(0))]
"""Duration of 0 or more in whole milliseconds, such as ``10 min``, or ISO 8601 (``PT10M``)."""
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
