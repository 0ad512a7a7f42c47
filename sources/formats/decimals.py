"""Texts of decimals that Arrow may not parse.

Arrow (26.0.1) rescales a number that it has parsed by a power of ten out of a table of 39, without
looking where the table ends: more digits than that after the decimal point are cut off silently, or
end the process.
"""

from __future__ import annotations

import re

MOST_FRACTION_DIGITS = 38
"""Digits after the decimal point that Arrow can parse, and that a decimal can have."""
SUSPECT = rf"[0-9.][eE]-|\.[0-9]{{{MOST_FRACTION_DIGITS + 1}}}"
"""Pattern in texts of numbers that may have more digits after the decimal point."""
_FORM = re.compile(r"[+-]?[0-9]*\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
TOO_LONG = f"a decimal has more than {MOST_FRACTION_DIGITS} digits after its decimal point"
"""Why a text of a decimal is bad that Arrow may not parse."""


def is_too_long(text: str) -> bool:
    """Return whether a number's text has more digits after its decimal point than Arrow parses.

    Its exponent counts: ``1e-40`` has 40 of them. A text of another form is not too long.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return False
    exponent = found[2] or "0"
    if len(exponent) > len("-1000000"):
        return exponent.startswith("-")
    return len(found[1]) - int(exponent) > MOST_FRACTION_DIGITS
