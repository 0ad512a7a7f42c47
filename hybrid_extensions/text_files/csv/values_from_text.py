"""CSV values parsed as text first, as Arrow differs: times without a zone, decimals, infinity."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sources.formats.decimals import suspicious_decimals, why_bad

_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
_DAY = r"^(\d{4}-\d\d-\d\d)$"
_TOO_FINE = r"(:\d\d\.\d{6})\d+"
_INFINITY = r"(?i)^\s*[+-]?inf(inity)?\s*$"


def parsed_as(kind: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow's CSV reader parses a column: string if we convert it.

    That is, for timestamps and decimals (:func:`convert_values`); else the column's own type.
    """
    # It refuses timestamps without a zone, which mean UTC here, and can't parse all decimals.
    is_text = pa.types.is_timestamp(kind) or pa.types.is_decimal(kind)
    return pa.string() if is_text else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is string or binary: its values in quotes are never null.

    Which values without quotes are null, :attr:`sources.formats.csv_options.CsvOptions.null` says
    for all types. An empty one that it does not name is an empty text here, and makes the row of
    another type bad.
    """
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def convert_values(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Convert CSV values that were parsed as :func:`parsed_as` to the type of their column.

    Args:
        values: The values.
        field: The column, with its name and type.

    Raises:
        ArrowInvalid: A text is not a timestamp or a decimal, or a decimal loses digits; names the
            column.
    """
    try:
        if pa.types.is_timestamp(field.type):
            return _timestamps(values, field.type)
        if pa.types.is_decimal(field.type):
            return _decimals(values, field.type)
    except pa.ArrowInvalid as error:
        # What follows is advice to users of Arrow's API.
        message = f"`{field.name}`: {str(error).partition(': expected')[0]}"
        raise pa.ArrowInvalid(message) from None
    return values


def has_infinity(values: pa.ChunkedArray) -> bool:
    """Return whether a parsed column has an infinite value, whose text must then be checked.

    False for types that are not floating-point.
    """
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_inf(values)).as_py())


def check_infinity(name: str, values: pa.ChunkedArray, texts: pa.ChunkedArray) -> None:
    """Refuse numbers that became infinite although their text does not say so: too large ones.

    Args:
        name: Name of the column.
        values: Its parsed values.
        texts: The same values as text.

    Raises:
        ArrowInvalid: A number is too large for its type.
    """
    is_named = pc.match_substring_regex(texts, _INFINITY)
    too_large = texts.filter(pc.and_(pc.is_inf(values), pc.invert(is_named)))
    if len(too_large):
        message = f"`{name}`: {too_large[0].as_py()} is too large for {values.type}"
        raise pa.ArrowInvalid(message)


def _timestamps(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast texts to timestamps, in UTC if they have no zone; a day is its start.

    Digits after those of microseconds are cut off, as by Spark.
    """
    try:
        return _in_utc(values).cast(kind)
    except pa.ArrowInvalid:
        whole = pc.replace_substring_regex(values, _DAY, r"\1T00:00:00")
        return _in_utc(pc.replace_substring_regex(whole, _TOO_FINE, r"\1")).cast(kind)


def _in_utc(values: pa.ChunkedArray) -> pa.ChunkedArray:
    zoned = pc.match_substring_regex(values, _ZONE)
    return pc.if_else(zoned, values, pc.binary_join_element_wise(values, "Z", ""))


def _decimals(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    suspects = values.filter(pc.match_substring_regex(values, suspicious_decimals([kind])))
    for text in suspects.to_pylist():
        if (reason := why_bad(text, kind)) is not None:
            raise pa.ArrowInvalid(reason)
    found = pc.ascii_trim_whitespace(values).cast(kind)
    # Arrow counts the digits without the scale.
    found.validate(full=True)
    return found
