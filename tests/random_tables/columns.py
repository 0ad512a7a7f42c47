"""Random columns: every type, extremes, nulls and odd names."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

EVENT_TIME, KEY = "at", "id"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)

Draw = Callable[[Random], Any]


class Kind(NamedTuple):
    """A type of columns, and how a value of it is drawn.

    Attributes:
        name: The type as Spark SQL spells it.
        type: The type in Arrow.
        draw: Draws a value, never null.
    """

    name: str
    type: pa.DataType
    draw: Draw


def _one_of(*values: Any) -> Draw:
    return lambda random: random.choice(values)


def _either(*draws: Draw) -> Draw:
    return lambda random: random.choice(draws)(random)


def _integer(name: str, kind: pa.DataType) -> Kind:
    most = 2 ** (kind.bit_width - 1)
    usual: Draw = lambda random: random.randint(-100, 100)  # noqa: E731 - one of several draws
    return Kind(name, kind, _either(usual, _one_of(-most, most - 1, 0, -1)))


def _float(name: str, kind: pa.DataType, extremes: list[float]) -> Kind:
    usual: Draw = lambda random: random.randint(-(2**20), 2**20) / 64  # noqa: E731
    return Kind(
        name, kind, _either(usual, usual, _one_of(0.0, -0.0, math.nan, math.inf, *extremes))
    )


def _decimal(precision: int, scale: int) -> Kind:
    def draw(random: Random) -> Decimal:
        digits = random.choice([1, precision, random.randint(1, precision)])
        unscaled = random.randint(-(10**digits) + 1, 10**digits - 1)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))

    return Kind(f"decimal({precision},{scale})", pa.decimal128(precision, scale), draw)


TEXTS = [
    "", " ", " padded ", "a,b", 'say "yes"', "it's", "back\\slash", "\\", "tab\there", "ünï ß",
    "日本語", "😀", "NULL", "null", "NaN", "true", "007", "1e5", "-", "2024-01-01", "{}", "[1]",
    "#no comment", "a;b|c", '"', '""', "\\N", "x" * 3000, "e\u0301", "\u00a0", "\ufeff", "\u2028",
]  # fmt: skip
LINES = ["two\nlines", "with\r\nreturn", "end\n"]


def _text(random: Random) -> str:
    return random.choice(TEXTS) if random.random() < 0.5 else f"text {random.randint(0, 999)}"


def _bytes(random: Random) -> bytes:
    return random.choice([b"", b"\x00", b"\xff\xfe", random.randbytes(random.randint(1, 40))])


def _day(random: Random) -> date:
    far = [
        date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1900, 2, 28),
        date(1969, 12, 31), date(9999, 12, 31),
    ]  # fmt: skip
    usual = date(2024, 1, 1) + timedelta(days=random.randint(-9000, 9000))
    return random.choice(far) if random.random() < 0.3 else usual


def _moment(random: Random) -> datetime:
    far = [
        datetime(1, 1, 1, tzinfo=UTC), datetime(1582, 10, 15, tzinfo=UTC),
        datetime(1677, 9, 21, 0, 12, 43, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC), datetime(2262, 4, 12, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ]  # fmt: skip
    return random.choice(far) if random.random() < 0.3 else _usual_moment(random)


def _usual_moment(random: Random) -> datetime:
    micros = random.choice([0, 0, 500_000, 123_000, 123_456, 1])
    return BEGIN + timedelta(seconds=random.randint(0, 10**8), microseconds=micros)


BOOLEAN = Kind("boolean", pa.bool_(), _one_of(True, False))
INT = _integer("int", pa.int32())
BIGINT = _integer("bigint", pa.int64())
DOUBLE = _float("double", pa.float64(), [1.7976931348623157e308, 5e-324, 1e22, 1 / 3])
STRING = Kind("string", pa.string(), _text)
TIMESTAMP = Kind("timestamp", pa.timestamp("us", "UTC"), _moment)
DATE = Kind("date", pa.date32(), _day)
PLAIN = [
    BOOLEAN, _integer("tinyint", pa.int8()), _integer("smallint", pa.int16()), INT, BIGINT,
    _float("float", pa.float32(), [3.4028234663852886e38, 1.401298464324817e-45]), DOUBLE,
    _decimal(9, 2), _decimal(18, 0), _decimal(38, 10), _decimal(5, 5), STRING, DATE, TIMESTAMP,
]  # fmt: skip
BINARY = Kind("binary", pa.binary(), _bytes)


def _array(of: Kind) -> Kind:
    def draw(random: Random) -> list[Any]:
        return [_maybe(of, random) for _ in range(random.choice([0, 1, 3]))]

    return Kind(f"array<{of.name}>", pa.list_(of.type), draw)


def _map(of: Kind) -> Kind:
    def draw(random: Random) -> dict[str, Any]:
        keys = random.sample(["a", "b c", "Ä", "", "key.dot"], random.randint(0, 3))
        return {key: _maybe(of, random) for key in keys}

    return Kind(f"map<string,{of.name}>", pa.map_(pa.string(), of.type), draw)


def _struct(**fields: Kind) -> Kind:
    def draw(random: Random) -> dict[str, Any]:
        return {name: _maybe(kind, random) for name, kind in fields.items()}

    names = ",".join(f"{name}:{kind.name}" for name, kind in fields.items())
    return Kind(f"struct<{names}>", pa.struct([(n, k.type) for n, k in fields.items()]), draw)


NESTED = [
    _array(INT), _array(STRING), _array(TIMESTAMP), _map(BIGINT), _map(STRING),
    _struct(a=INT, b=STRING), _struct(when=TIMESTAMP, n=_decimal(9, 2)),
    _array(_struct(x=DOUBLE, y=DATE)),
]  # fmt: skip
_NEAR_TIME = TIMESTAMP._replace(draw=_usual_moment)
_NEAR_DAY = DATE._replace(draw=_one_of(date(1582, 10, 15), date(1969, 12, 31), date(9999, 12, 31)))
NEAR = [_NEAR_TIME, _NEAR_DAY, _array(_NEAR_TIME), _struct(when=_NEAR_TIME, day=_NEAR_DAY)]
"""Times of the years that nanoseconds have, and days of the Gregorian calendar."""
NAMES = [
    "plain", "UPPER", "with space", "dot.ted", "dash-ed", "ünïcode", "select", "_hidden", "1st",
    "semi;colon", "comma,ed", "quo'te", "per%cent", "日本",
]  # fmt: skip


def _maybe(kind: Kind, random: Random) -> Any:
    return None if random.random() < 0.15 else kind.draw(random)


def draw_columns(random: Random, kinds: list[Kind], names: list[str]) -> dict[str, Kind]:
    """Draw one to six columns with odd names; key and event time come first.

    Args:
        random: The source of chance.
        kinds: Types to choose from.
        names: Names to choose from.
    """
    chosen = random.sample(names, random.randint(1, min(6, len(names))))
    return {KEY: BIGINT, EVENT_TIME: TIMESTAMP, **{name: random.choice(kinds) for name in chosen}}


def draw_rows(random: Random, columns: dict[str, Kind], first: int, count: int) -> pa.Table:
    """Draw rows with keys from ``first`` on and usual event times.

    Now and then a column is null throughout, or has no null at all.

    Args:
        random: The source of chance.
        columns: The columns.
        first: Key of the first row.
        count: Number of rows.
    """
    made: dict[str, list[Any]] = {}
    for name, kind in columns.items():
        if name == KEY:
            made[name] = list(range(first, first + count))
        elif name == EVENT_TIME:
            made[name] = [BEGIN + timedelta(minutes=first + row) for row in range(count)]
        else:
            share = random.choice([0.0, 0.2, 0.2, 1.0])
            made[name] = [
                None if random.random() < share else kind.draw(random) for _ in range(count)
            ]
    return pa.Table.from_pydict(made, schema=schema_of(columns))


def draw_some_rows(random: Random, columns: dict[str, Kind], first: int) -> pa.Table:
    """Draw up to a dozen rows as :func:`draw_rows`; some, none or all lack their event time.

    Args:
        random: The source of chance.
        columns: The columns.
        first: Key of the first row.
    """
    rows = draw_rows(random, columns, first, random.choice([0, 1, 3, 12]))
    at, share = rows.column_names.index(EVENT_TIME), random.choice([0.0, 0.3, 1.0])
    times = [None if random.random() < share else each.as_py() for each in rows[at]]
    return rows.set_column(at, EVENT_TIME, pa.array(times, rows.schema.types[at]))


def schema_of(columns: dict[str, Kind]) -> pa.Schema:
    """Return columns as Arrow's schema."""
    return pa.schema([pa.field(name, kind.type) for name, kind in columns.items()])
