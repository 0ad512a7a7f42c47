"""Values of Debezium's envelopes by column type: units of times, decimals, bytes, bits, years.

Temporal and decimal types depend on the connector's settings, and on the logical type that the
converter's schema contains:
https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-data-types
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

from hybrid_extensions.cdc.debezium.mysql_json import canonical_json
from sources.common.conversion import BadValue, short_repr
from sources.common.schema import type_name
from sources.common.times import EPOCH
from sources.decoding.changes.declared_table import BinaryMode
from sources.decoding.changes.envelopes import MYSQL_JSON, Encoding

T = TypeVar("T")
NO_ENCODING = Encoding()
"""Encoding of a column of which the record carries no schema."""
# Microseconds in the unit of each logical type; None for nanoseconds.
_UNITS = {
    "io.debezium.time.Timestamp": 1000,
    "org.apache.kafka.connect.data.Timestamp": 1000,
    "io.debezium.time.MicroTimestamp": 1,
    "io.debezium.time.NanoTimestamp": None,
}
# JSON has no such numbers: Kafka Connect's `JsonConverter` writes these texts.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BITS = "io.debezium.data.Bits"
YEAR = "io.debezium.time.Year"
"""Logical type of a year of MariaDB and MySQL."""
YEAR_ZERO = 1900
"""What Debezium reports for the year 0000; the first year that a column can hold is 1901."""
DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""Logical type of a decimal whose bytes have a scale in the schema."""
# Base64 of bytes is hardly ever so.
_LIKE_HEX = re.compile("(?:[0-9a-f]{4})+")
_FINER_THAN_MICROS = re.compile(r"\.\d{6}\d*[1-9]")
# More digits than that of a decimal may differ once it is a double.
_DOUBLE_DIGITS = 15
_OF_URLS = str.maketrans("-_", "+/")


def value_converter(
    kind: pa.DataType, binary: BinaryMode | None = None
) -> Callable[[Any, Encoding], Any]:
    """Return a function from a value in Debezium's envelope to a Python value of a column type.

    It takes a value and its column's :class:`Encoding`, and raises :class:`BadValue` if the value
    can't be converted. Check its result by :func:`sources.common.conversion.converter`.

    Args:
        kind: Type of the column.
        binary: How the connector writes bytes (``binary.handling.mode``); None if not declared.
    """
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_decimal(kind):
        return lambda raw, encoding: _decimal(raw, encoding, kind.scale)
    if pa.types.is_floating(kind):
        return lambda raw, _: _NOT_FINITE.get(raw, raw) if type(raw) is str else raw
    if pa.types.is_binary(kind):
        return lambda raw, encoding: (
            _bytes(raw["wkb"]) if _is_geometry(raw) else _declared_bytes(raw, encoding, binary)
        )
    if pa.types.is_boolean(kind):
        return lambda raw, _: bool(raw) if type(raw) is int and raw in (0, 1) else raw
    if pa.types.is_integer(kind):
        return _integer
    if pa.types.is_list(kind):
        item = value_converter(kind.value_type, binary)
        return lambda raw, encoding: [
            None if each is None else item(each, encoding.items or NO_ENCODING)
            for each in _as_list(raw)
        ]
    return _text if pa.types.is_string(kind) else lambda raw, _: raw


def micros_of_unit(encoding: Encoding) -> int | None:
    """Return the unit, in microseconds, of a timestamp that is encoded as a number since 1970.

    1 or 1,000; None for nanoseconds, and for any other encoding.
    """
    return _UNITS.get(str(encoding.name))


def require_integer(value: int, kind: pa.DataType, encoding: Encoding) -> None:
    """Refuse an integer that its column can't hold, as after a widening in the database.

    Args:
        value: The value.
        kind: Integer type of the column.
        encoding: How the envelope's schema describes it.

    Raises:
        BadValue: The type does not hold the value; of a column narrower than 64 bits the text says
            what to declare if it was widened.
    """
    most = 1 << kind.bit_width - 1
    if -most <= value < most:
        return
    reason = f"{value} is not a valid {type_name(kind)}"
    if kind.bit_width < 64:
        now = "" if encoding.kind is None else f" ({encoding.kind} in the change)"
        reason += (
            f": if the database's column was widened{now}, declare its new type in "
            "`widened_columns`, and run `hybrid resume P`; a column of `sink.key` needs a new "
            "generation with a new snapshot, `hybrid generation new P`"
        )
    raise BadValue(reason)


def _is_geometry(raw: Any) -> bool:
    """Return whether a value is a geometry: well-known binary, with the id of its system."""
    return isinstance(raw, dict) and "wkb" in raw


def _integer(raw: Any, encoding: Encoding) -> Any:
    """Convert bits and the year 0 of MariaDB and MySQL to numbers; others are left as they are."""
    if encoding.name == YEAR and raw == YEAR_ZERO:
        return 0
    return _of_bits(raw) if encoding.name == _BITS and isinstance(raw, str | bytes) else raw


def _of_bits(raw: str | bytes) -> int:
    """Convert bits, which begin with the lowest, to a number."""
    return int.from_bytes(_bytes(raw), "little")


def _text(raw: Any, encoding: Encoding) -> Any:
    """Return a text as it is, and a JSON document of MySQL in its canonical form.

    Raises:
        BadValue: It is the base64 of a decimal's bytes.
    """
    if encoding.name == DECIMAL:
        reason = (
            f"{short_repr(raw)} is a decimal: declare the column as one, such as decimal(38,"
            f"{encoding.scale or 0}), or set `decimal.handling.mode=string` in the connector"
        )
        raise BadValue(reason)
    if encoding.name == MYSQL_JSON and isinstance(raw, str):
        return canonical_json(raw)
    return raw


def _as_list(raw: Any) -> list[Any]:
    """Return the value of an array column if it is a list.

    Raises:
        BadValue: It is not a list.
    """
    if not isinstance(raw, list):
        reason = f"{short_repr(raw)} is not an array"
        raise BadValue(reason)
    return raw


def _timestamp(raw: Any, encoding: Encoding) -> datetime:
    """Convert an instant: ISO 8601 text, or a number in the unit that the logical type implies.

    Raises:
        BadValue: It is no instant, its unit is unknown, or it is too fine or too far away for a
            column.
    """
    if isinstance(raw, datetime):
        return raw
    if isinstance(raw, str):
        if _FINER_THAN_MICROS.search(raw):
            reason = f"{short_repr(raw)} can't be stored exactly: timestamps have microseconds"
            raise BadValue(reason)
        return _parsed(datetime.fromisoformat, raw, "timestamp")
    if isinstance(raw, bool) or not isinstance(raw, int):
        reason = f"{short_repr(raw)} is not a valid timestamp"
        raise BadValue(reason)
    if encoding.name not in _UNITS:
        if (described := encoding.kind or encoding.name) is not None:
            reason = (
                f"{raw} is of type {described} in the change's schema, which is no timestamp: "
                "declare that type in `schema`, and convert the column in `select` if it is a time"
            )
            raise BadValue(reason)
        reason = (
            f"the unit of {short_repr(raw)} is unknown, as the record has no schema: declare the "
            "column as bigint in `schema`, and convert it in `select` with timestamp_millis or "
            "timestamp_micros; or let the converter of Kafka Connect send schemas "
            "(`value.converter.schemas.enable=true`), which helps with new records only"
        )
        raise BadValue(reason)
    unit = _UNITS[encoding.name]
    if unit is None and raw % 1000:
        reason = f"{raw} ns can't be stored exactly: timestamps have microseconds"
        raise BadValue(reason)
    micros = raw // 1000 if unit is None else raw * unit
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        reason = f"{raw} is outside the years 1 to 9999"
        raise BadValue(reason) from None


def _date(raw: Any, encoding: Encoding) -> date:
    """Convert a date: ISO 8601 text, or the number of days since 1970-01-01.

    Raises:
        BadValue: It is neither, or outside the years 1 to 9999.
    """
    del encoding
    if isinstance(raw, date):
        return raw
    if isinstance(raw, str):
        # `time.precision.mode=isostring` adds the zone of UTC.
        return _parsed(date.fromisoformat, raw.removesuffix("Z"), "date")
    if isinstance(raw, bool) or not isinstance(raw, int):
        reason = f"{short_repr(raw)} is not a valid date"
        raise BadValue(reason)
    try:
        return EPOCH.date() + timedelta(days=raw)
    except OverflowError:
        reason = f"{raw} days since 1970 are outside the years 1 to 9999"
        raise BadValue(reason) from None


def _parsed(parse: Callable[[str], T], text: str, type_name: str) -> T:
    """Parse a text with a function that raises ``ValueError`` for what it can't parse.

    Raises:
        BadValue: The text can't be parsed.
    """
    try:
        return parse(text)
    except ValueError:
        reason = f"{short_repr(text)} is not a valid {type_name}"
        raise BadValue(reason) from None


def _decimal(raw: Any, encoding: Encoding, scale: int) -> Decimal | int:
    """Convert a decimal, in any encoding of the connector's ``decimal.handling.mode``.

    Args:
        raw: The value.
        encoding: How it is written.
        scale: Digits that the column has after the point.

    Raises:
        BadValue: The value is not a finite decimal, base64 without a known scale, or a double that
            several decimals of the column become.
    """
    if encoding.name == _BITS and isinstance(raw, str | bytes):
        return _of_bits(raw)
    if isinstance(raw, dict) and raw.keys() == {"scale", "value"}:
        # io.debezium.data.VariableScaleDecimal, for a numeric column without a scale.
        return _unscaled(raw["value"], raw["scale"])
    if isinstance(raw, str) and encoding.name == DECIMAL and encoding.scale is not None:
        return _unscaled(raw, encoding.scale)
    if isinstance(raw, int | Decimal):
        return raw
    try:
        # A double of `decimal.handling.mode=double` has the digits that it is written with.
        number = Decimal(repr(raw) if isinstance(raw, float) else raw)
    except (ArithmeticError, TypeError, ValueError):
        number = None
    if isinstance(raw, float) and number is not None and number.is_finite():
        # Those of the number, or of its neighbours in the column.
        digits = max(len(number.as_tuple().digits), number.adjusted() + 1 + scale if number else 0)
        if digits > _DOUBLE_DIGITS:
            reason = (
                f"{raw!r} is a double, which may have other digits than the decimal: set "
                "`decimal.handling.mode=string` in the connector, or declare the column as double"
            )
            raise BadValue(reason)
        return number
    if number is not None and not number.is_finite():
        reason = f"{short_repr(raw)} can't be stored as a decimal, which is a finite number"
        raise BadValue(reason)
    if number is None:
        reason = (
            f"{short_repr(raw)} is not a valid decimal: set `decimal.handling.mode=string` in the "
            "connector, or let the converter send schemas"
        )
        raise BadValue(reason)
    return number


def _unscaled(text: Any, scale: int) -> Decimal:
    """Build a decimal from its unscaled value (big-endian bytes, base64 in JSON) and scale."""
    # `scaleb` would round to the 28 digits of Python's default context.
    data = _bytes(text)
    if not data:
        reason = "a decimal without bytes is no number"
        raise BadValue(reason)
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _declared_bytes(raw: Any, encoding: Encoding, mode: BinaryMode | None) -> bytes:
    """Return bytes that are written as the connector's ``binary.handling.mode`` says.

    Raises:
        BadValue: The text is not written so, or it is not declared how it is and may be
            hexadecimal.
    """
    # The converter's own base64, whatever the mode is.
    is_of_converter = encoding.kind == "binary"
    if not isinstance(raw, str) or is_of_converter or mode in ("bytes", "base64"):
        return _bytes(raw)
    if mode == "hex":
        return _parsed(bytes.fromhex, raw, "hexadecimal text")
    if mode == "base64-url-safe":
        return _bytes(raw.translate(_OF_URLS))
    if _LIKE_HEX.fullmatch(raw):
        reason = (
            f"{short_repr(raw)} may be hexadecimal or base64: declare the connector's "
            "`binary.handling.mode` for this source, as `binary_handling_mode: hex`, or `bytes`"
        )
        raise BadValue(reason)
    return _bytes(raw)


def _bytes(raw: Any) -> bytes:
    """Return bytes as they are in Avro, or decoded from the base64 of JSON.

    Raises:
        BadValue: The text is not base64.
    """
    if isinstance(raw, bytes):
        return raw
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, TypeError, ValueError):
        reason = f"{short_repr(raw)} is not valid base64"
        raise BadValue(reason) from None
