"""Canonical form of MySQL's JSON documents: blanks, escapes, and digits of numbers do not count.

MySQL stores values, not texts. The server writes blanks, and numbers with an exponent; Debezium no
blanks, and all digits of such a number: https://dev.mysql.com/doc/refman/8.4/en/json.html
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+|-?[0-9][0-9.eE+-]*')
# Integers of MySQL have 64 bits; longer numbers are doubles or decimals.
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_RANGE = range(-(1 << 63), 1 << 64)
# From here on Debezium writes a double without a fraction as an integer.
_WITHOUT_POINT = 1e7


def canonical_json(text: str) -> str:
    """Return a JSON document of MySQL in canonical form: equal documents have equal texts.

    There are no blanks. A double has the fewest digits by which it is itself; a decimal that is no
    double keeps its digits. The order of members is MySQL's, which is the same in both texts.

    Args:
        text: The document as the server or Debezium writes it.
    """
    return _TOKEN.sub(_canonical, text)


def _canonical(found: re.Match[str]) -> str:
    token = found[0]
    if token[0] == '"':
        # Which characters are escaped differs.
        return json.dumps(json.loads(token), ensure_ascii=False) if "\\" in token else token
    if token.isspace():
        return ""
    if _INTEGER.fullmatch(token) and int(token) in _RANGE:
        return token
    value, exact = float(token), Decimal(token)
    if exact not in (Decimal(value), Decimal(repr(value))) and "e" not in token.lower():
        return token
    if abs(value) >= _WITHOUT_POINT and value.is_integer() and int(value) in _RANGE:
        return str(int(value))
    return repr(value)
