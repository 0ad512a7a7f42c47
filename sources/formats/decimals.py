"""Decimals in text that Arrow may parse wrongly.

Arrow (26.0.1) rescales a number that it has parsed by a power of ten out of a table of 39, without
looking where the table ends, nor whether the product has more than 128 bits: digits are cut off
silently, another number is returned, or the process ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

MOST_DIGITS = 38
"""Digits that a decimal can have, and those after the decimal point that Arrow can parse."""
_FORM = re.compile(r"[+-]?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
# An exponent that is longer is beyond all decimals.
_LONGEST_EXPONENT = len("-1000000")
TOO_LONG = f"a decimal has more than {MOST_DIGITS} digits"
"""Why a text of a decimal is bad that Arrow may not parse."""
TOO_LARGE = "a decimal has more digits before its decimal point than its column"
"""Why a text of a decimal is bad that Arrow may make another number of."""


def suspicious_decimals(kinds: Iterable[pa.DataType]) -> str:
    """Return a regular expression that finds numbers which Arrow may parse wrongly as decimals.

    It also finds some harmless ones; :func:`why_bad` decides.

    Args:
        kinds: Types of columns; those that are no decimals do not count.
    """
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    whole = MOST_DIGITS + 1 - max(scales, default=0)
    # An exponent of one digit moves the point by nine places at most.
    raised = rf"[0-9.][eE]\+?[0-9]{{2}}|[0-9]{{{max(whole - 9, 1)}}}[0-9.]*[eE]"
    # More characters than any allowed number has, decimal point included.
    long = rf"[0-9.]{{{MOST_DIGITS + 2}}}"
    return rf"[0-9.][eE]-|{raised}|{long}|[0-9]{{{max(whole, 1)}}}"


def why_bad(text: str, kind: pa.DataType) -> str | None:
    """Return why a number's text must not be parsed as a decimal type; None if it may.

    A phrase that follows a colon. Its exponent counts: ``1e-40`` has 40 digits after the point.
    None, too, for a text that is no number, which Arrow refuses.

    Args:
        text: The text.
        kind: The decimal type.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    before, after, exponent = found[1], found[2], found[3] or "0"
    is_zero = not (before + after).strip("0")
    if len(exponent) > _LONGEST_EXPONENT:
        return TOO_LONG if exponent.startswith("-") else None if is_zero else TOO_LARGE
    if len(after) - int(exponent) > MOST_DIGITS:
        return TOO_LONG
    # Zeros in front of the first digit do not count.
    digits = (before + after).lstrip("0")
    if len(digits) > MOST_DIGITS and after:
        return TOO_LONG
    whole = len(before) - len(before + after) + len(digits) + int(exponent)
    return TOO_LARGE if not is_zero and whole > kind.precision - kind.scale else None
