"""Durations in words, as messages, cards and pages print them."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration(seconds: float, units: int = 2) -> str:
    """Return a duration for people in its largest units, such as ``2 h 5 min``.

    Rounded to seconds; ``less than 1 s`` for anything shorter.

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
