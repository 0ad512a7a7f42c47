"""Durations: parsed from texts such as ``10 min``, and printed in words."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from sources.errors import InputError

DAY_MS = 86_400_000
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_DURATION = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|min|minutes?|h|hours?|d|days?)"
)
_HINT = "Write 90 s, 10 min or 1.5 h: a number, and ms, s, min, h or d."
_OTHER_FORMS = re.compile(r"^[-+]?P|:")
_UNIT_MS = {"ms": 1, "milli": 1, "mi": 60_000, "s": 1_000, "h": 3_600_000, "d": DAY_MS}


def _duration(value: Any, read: ValidatorFunctionWrapHandler) -> timedelta:
    given, is_whole = value, True
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip().lower())):
        factor = next(ms for unit, ms in _UNIT_MS.items() if match[2].startswith(unit))
        span_ms = Decimal(match[1]) * factor
        is_whole = span_ms == int(span_ms)
        try:
            given = timedelta(milliseconds=int(span_ms))
        except OverflowError:
            message = f"`{value}` is longer than the longest duration, some 2.7 million years."
            raise ValueError(message) from None
    # Pydantic reads ISO 8601 and `1:30:00`; of all else it says what a unit in ISO 8601 should be.
    elif isinstance(value, str) and not _OTHER_FORMS.search(value):
        message = f"`{value}` is not a duration. {_HINT}"
        raise ValueError(message)
    span: timedelta = read(given)
    if not is_whole or span % timedelta(milliseconds=1):
        message = (
            f"`{value}` is not a whole number of milliseconds, the smallest unit of a duration."
        )
        raise ValueError(message)
    return span


Duration = Annotated[timedelta, WrapValidator(_duration), Field(ge=timedelta(0))]
"""Duration of 0 or more in whole milliseconds, such as ``10 min``, or ISO 8601 (``PT10M``)."""


def span_ms(span: timedelta) -> int:
    """Return a duration in milliseconds as a whole number, rounded down."""
    return span // timedelta(milliseconds=1)


def parse_duration(text: str) -> timedelta:
    """Return a duration from a text of a command line or form, such as ``10 min``.

    Upper and lower case are alike; a number without a unit is refused.

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
        raise InputError(message.removesuffix(f" {_HINT}"), _HINT, value=text) from None


def duration(seconds: float, units: int = 2) -> str:
    """Return a duration for people in its largest units, such as ``2 h 5 min``.

    Rounded to seconds; smaller units than the last one shown are cut off, and units of 0 left out;
    ``less than 1 s`` for anything shorter. Not for negative lengths.

    Args:
        seconds: The length.
        units: How many units at most, of d, h, min and s.
    """
    left = round(seconds)
    parts = []
    for name, unit in _UNITS:
        number, left = divmod(left, unit)
        if number:
            parts.append(f"{number:,} {name}")
    return " ".join(parts[:units]) or "less than 1 s"


def in_full(ms: float) -> str:
    """Return a duration for people in all of its units, such as ``1 d 2 h 3 s``.

    Unlike :func:`duration`, which shows the largest units only. Rounded to seconds; ``less than 1
    s`` for anything shorter.

    Args:
        ms: The length, in milliseconds.
    """
    return duration(ms / 1000, len(_UNITS))
