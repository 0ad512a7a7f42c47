"""Retention of removed files: ``delta.deletedFileRetentionDuration`` of a Delta table.

Delta takes any interval of Spark SQL, in capital letters and without the word ``interval``, too.
Its Rust library takes one number and one unit, and what it does not understand for a week.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

RETENTION = "delta.deletedFileRetentionDuration"
_PART = re.compile(r"(\d+)\s+(second|minute|hour|day|week)s?")
_PLAIN = re.compile(rf"interval {_PART.pattern}")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}


def retention_s(text: str) -> int | None:
    """Return a retention in seconds; None for a text that is not understood.

    Args:
        text: Value of the property, such as ``interval 7 days`` or ``1 week 12 hours``.
    """
    parts = text.strip().lower().removeprefix("interval").strip()
    found = _PART.findall(parts)
    if not found or _PART.sub("", parts).strip():
        return None
    return sum(int(number) * _SECONDS[unit] for number, unit in found)


def in_plain_form(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return the properties of a table with a retention that Delta's Rust library understands.

    Args:
        properties: Properties of the table by name.

    Returns:
        None if it understands the one that they have, or if they have none that is known here.
    """
    text = properties.get(RETENTION)
    seconds = None if text is None or _PLAIN.fullmatch(text) else retention_s(text)
    return None if seconds is None else {**properties, RETENTION: f"interval {seconds} seconds"}
