"""A table of values of every type: usual ones, nulls, negatives, zero and extremes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa

ROWS = 48
_FAR = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]
TIMES = [
    datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
    None,
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1900, 3, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
    datetime(2021, 1, 3, 12, 0, 0, 120_000, tzinfo=UTC),
    *_FAR,
    datetime(1582, 10, 10, 5, tzinfo=UTC),
    datetime(2020, 12, 31, 23, tzinfo=UTC),
]
DAYS = [None if each is None else each.date() for each in TIMES] + [date(2023, 2, 28)]
TEXTS = [
    "abc", "", None, " ab ", "Zoë", "ÄÖ straße", "日本語", "😀x", "a\nb", "A-1_b%c", "e\u0301t",
    "\u00a0x\u00a0", "it's", "0", "event-42", "a,b,,c", "\tx\r\n", "2024-01-01", "İi",
    "true",
]  # fmt: skip
NUMBERS = [
    "0", "7", "-12", "+5", " 8 ", None, "127", "128", "99999", "2147483648", "", "12.7", "-0.005",
    "abc", "1e3", "9223372036854775807", "9223372036854775808", "1e400", "nan", "1_000", "\t3\n",
    "0x1F", "-2.5e-3", "123456789.123456789", "5.", ".5", "--1", "1d", "Infinity", "٣",
    "0.00000051",
]  # fmt: skip
MOMENTS = [
    "2024-01-01 10:00:00", "2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00.123456Z",
    "2024-01-01", None, "", "yesterday", "2024-02-30", "2024-1-5", "2024-01-01T10:00",
    "1969-12-31 23:59:59.5", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999",
    "2024-01-01 24:00:00", "2024-01-01 10:00:00 Europe/Berlin", "2024-01-01 10:00:00-17:45",
    "2024-01-01 10:00:00.1234567", "2024", "10:00:00", " 2024-01-01 ", "2023-02-29 00:00:00",
    "2024-01-01 10:00:00+0200", "2024-01-01 10:00:00.5 UTC", "2024-01-01T10:00 UTC",
    "2024-01-01T10:00Z", "T10:00", "now", "20240101", "01.02.2024", "1900-01-01 00:00:00Z",
    "10000-01-01", "epoch", "2024/01/01 10:00", "2024-12-31T23:59:60Z",
]  # fmt: skip
JSON = [
    '{"id": 7, "at": "2024-01-01T10:00:00Z", "b": true, "n": null, "o": {"x": "y"}}',
    "{}", None, "[1]", "no json", '{"id": 1.50}', '{"id": "a\\nb"}', '{"id": -3}',
    '{"o": {"x": 2}}',
    '{"id": "Zoë"}', '{"o": 5}', '"text"', "", '{"id": 12345678901234567890}',
]  # fmt: skip

_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [0, 1, -1, 127, -128, None, 5]),
    "i16": (pa.int16(), [0, 1, -1, 32767, -32768, None, 300]),
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None, 7, -7, 100, 3]),
    "j": (pa.int32(), [3, -2, 0, None, 1, 10, -1]),
    "l": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None, 1_704_067_200, -86_401, 10**12, 3]),
    "k": (pa.int64(), [2, -3, 0, None, 1000, 1, -1]),
    "f": (pa.float32(), [0.0, 1.5, -2.25, None, inf, nan, 0.1]),
    "d": (
        pa.float64(),
        [0.0, -0.0, 2.5, -2.5, 0.1, None, inf, -inf, nan, 1e300, 5e-324, 2.0**63, -(2.0**63), 1e15,
         3.999999999, -0.7],
    ),
    "e": (pa.float64(), [3.0, 0.1, -4.0, None, 0.0, nan, 1e-300, 12345.678]),
    "n": (
        pa.decimal128(9, 2),
        [Decimal(each) for each in ("0.00", "1.50", "-1.50", "9999999.99", "-0.01")] + [None],
    ),
    "q": (
        pa.decimal128(15, 5),
        [Decimal(each) for each in ("2.50000", "-2.50000", "0.00001", "9999999999.99999", "0")]
        + [None],
    ),
    "w": (
        pa.decimal128(38, 10),
        [Decimal("9" * 28 + "." + "9" * 10), Decimal("-" + "9" * 28 + ".5"), Decimal("0"), None,
         Decimal("0.0000000001"), Decimal("127.5"), Decimal("-128.9999999999")],
    ),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), ["b", None, "abc", "", "x", "Zoë", "event-42", "a"]),
    "num": (pa.string(), NUMBERS),
    "moment": (pa.string(), MOMENTS),
    "js": (pa.string(), JSON),
    "bin": (pa.binary(), [b"abc", b"", None, "Zoë".encode(), b"\xff\xfe", b"42", b"\\x41"]),
    "b": (pa.bool_(), [True, False, None]),
    "c": (pa.bool_(), [False, None, True, True]),
    "day": (pa.date32(), DAYS),
    "until": (pa.date32(), [date(2024, 3, 1), date(1969, 7, 20), None, date(1, 1, 1)]),
    "at": (pa.timestamp("us", "UTC"), TIMES),
    "later": (
        pa.timestamp("us", "UTC"),
        [datetime(2024, 3, 1, tzinfo=UTC), None, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)],
    ),
    "st": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, None, {"a": None, "b": ""}],
    ),
    "li": (pa.list_(pa.int32()), [[1, 2], [], None, [None, -5, 7]]),
    "mp": (pa.map_(pa.string(), pa.string()), [[("k", "v")], [], None, [("k", None), ("x", "y")]]),
    "h": (
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        [[{"key": "a", "value": b"8"}], None, [{"key": "a", "value": None}]],
    ),
}  # fmt: skip


def hostile_table() -> pa.Table:
    """Rows that combine the values of different columns in many ways; `id` is their number."""
    columns = {"id": pa.array(range(ROWS), pa.int32())}
    for stride, (name, (kind, values)) in enumerate(_VALUES.items()):
        # Neighbours repeat with different periods, so that values of two columns meet in all ways.
        shift = stride * 5
        picked = [values[(row + shift + row // len(values)) % len(values)] for row in range(ROWS)]
        columns[name] = pa.array(picked, kind)
    return pa.table(columns)
