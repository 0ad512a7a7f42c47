"""Statistics of a concatenated file, computed from those of its parts.

Their form: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_NUMBERS = ("byte", "short", "integer", "long", "float", "double")
_TEXTS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamp_ntz": datetime.fromisoformat,
}
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def merge_statistics(
    statistics: Sequence[str | None], rows: Sequence[int], schema: dict[str, Any]
) -> str:
    """Return the statistics of a file that holds all rows of some others.

    A value that is unknown for one of them is left out, so that no reader skips the file by it.

    Args:
        statistics: ``stats`` of each file's ``add`` action, as JSON; None or empty if it has none.
        rows: Number of rows of each file, in the same order.
        schema: The table's schema, as parsed from its ``metaData`` action.

    Returns:
        JSON for the ``add`` action, with numbers as exact as in the log.
    """
    known = [json.loads(each, parse_float=Decimal) if each else {} for each in statistics]
    low, high, nulls = _columns(known, rows, schema["fields"])
    found = {"numRecords": sum(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    if any(each.get("tightBounds") is False for each in known):
        found["tightBounds"] = False
    return _text(found)


def _columns(
    known: list[dict[str, Any]], rows: Sequence[int], fields: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return lowest values, highest values and numbers of nulls of some fields and their parts."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for field in fields:
        name = (field.get("metadata") or {}).get(_PHYSICAL_NAME, field["name"])
        kind = field["type"]
        if isinstance(kind, dict) and kind.get("type") == "struct":
            inner = [{part: _part(each, part, name) for part in each} for each in known]
            parts = _columns(inner, rows, kind["fields"])
            for values, found in zip((low, high, nulls), parts, strict=True):
                if found:
                    values[name] = found
            continue
        counts = [_part(each, "nullCount", name) for each in known]
        if all(isinstance(each, int) for each in counts):
            nulls[name] = sum(counts)
        compared = _comparable(kind)
        # A file with nothing but nulls has no lowest value, and none is missing.
        some = [
            each
            for each, count, all_rows in zip(known, counts, rows, strict=True)
            if count != all_rows
        ]
        for values, part, choose in ((low, "minValues", min), (high, "maxValues", max)):
            of_files = [_part(each, part, name) for each in some]
            if compared is None or not some or any(each is None for each in of_files):
                continue
            try:
                values[name] = choose(of_files, key=compared)
            except (ArithmeticError, TypeError, ValueError):
                # Written in another form, such as NaN, or a year of five digits.
                continue
    return low, high, nulls


def _part(statistics: dict[str, Any], part: str, name: str) -> Any:
    """Return what the statistics of a file hold of one column in one part; None if nothing."""
    values = statistics.get(part)
    return values.get(name) if isinstance(values, dict) else None


def _comparable(kind: Any) -> Callable[[Any], Any] | None:
    """Return what turns a value of a type into one that compares as readers compare it."""
    if not isinstance(kind, str):
        return None
    if kind in _NUMBERS or kind.startswith("decimal"):
        return _number
    return _TEXTS.get(kind)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        message = f"{value!r} is no number."
        raise TypeError(message)
    return value


def _text(value: Any) -> str:
    """Return JSON in which decimals have all of their digits."""
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(name)}:{_text(each)}' for name, each in value.items())}}}"
        )
    return str(value) if isinstance(value, Decimal) else json.dumps(value)
