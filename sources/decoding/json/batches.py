"""Decoding of JSON objects by Arrow in whole batches, where it returns what Spark would return.

Arrow's parser is several times as fast as Spark's ``from_json``, but accepts other texts. So a row
is returned only where both are certain to agree; every other value is left to Spark. The checks
below establish that; ``tests/e2e/records/test_json_objects.py`` compares the two parsers.

Rules of Spark: https://spark.apache.org/docs/latest/sql-data-sources-json.html; limits of its
parser: https://github.com/FasterXML/jackson-core (``StreamReadConstraints``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import Mask, as_mask, spans
from sources.formats.decimals import suspicious_decimals
from sources.formats.lines import check_precision, check_utf8

_PARSED_AS_TEXT = (pa.date32(), TIMESTAMP)

# Values up to this size can't hold a name longer than the 50,000 characters of Spark's parser.
_MOST_BYTES = 50_000
# Spark's parser allows 1,000 levels of nesting and 1,000 characters of a number; only values that
# are longer than this can exceed that.
_LONG_BYTES = _MOST_BRACKETS = 900
# `.` and `e` divide a number into three runs of digits: one of 1,000 characters has a longer run.
_MOST_DIGITS = 300
# Arrow accepts more of these words than Spark does.
_NOT_FINITE = r"[:,\[\s-](Inf|NaN)"
# Of a decimal that Arrow may not parse: at the beginning of a value, as UUIDs look alike.
_SUSPECT = r'[:\[,]\s*"?[-+]?[0-9.]*(?:{})'
# A batch that fails to parse is divided into this many parts, down to parts of this many values.
_PARTS = 8
_FEWEST = 200
# Length of `2024-01-01T00:00:00`.
_SECONDS_END = 19
_MOST_ZONE_HOURS = 17


def supports_schema(columns: pa.Schema) -> bool:
    """Return whether :func:`read_objects` can parse columns of these types.

    It can't for ``float``, which Arrow and Spark round differently, ``binary`` and nested types.
    """
    return all(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or kind in (pa.bool_(), pa.float64(), pa.string(), pa.date32(), TIMESTAMP)
        for kind in columns.types
    )


def read_objects(values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
    """Parse JSON objects into rows by Arrow, where Spark would certainly read the same.

    Args:
        values: The values, which need not be JSON or UTF-8.
        columns: Members to read; :func:`supports_schema` holds for them. Other members are ignored,
            a missing one is null.

    Returns:
        Structs of the columns, as long as the values. A null row is undecided, not bad: Spark has
        to parse that value.
    """
    # Spark passes large binaries with `spark.sql.execution.arrow.useLargeVarTypes`.
    values = values.cast(pa.binary())
    candidates = _plausible(values)
    if any(map(pa.types.is_decimal, columns.types)):
        pattern = _SUSPECT.format(suspicious_decimals(columns.types))
        candidates &= ~as_mask(pc.match_substring_regex(values, pattern).fill_null(False))
    kept = values if candidates.all() else values.filter(pa.array(candidates))
    kind = pa.struct(columns)
    rows = in_parts(kept, lambda part: _parsed(part, columns), kind)
    if len(kept) < len(values):
        rows = rows.take(pa.array(np.cumsum(candidates) - 1, mask=~candidates))
    return rows


def in_parts(
    values: pa.BinaryArray,
    parse: Callable[[pa.BinaryArray], pa.StructArray],
    kind: pa.StructType,
) -> pa.StructArray:
    """Parse values into rows, in smaller and smaller parts where that fails.

    A part that fails is divided into eight; all values of one that fails, and has 200 or fewer,
    become null rows, which are undecided. Empty without values.

    Args:
        values: The values.
        parse: Parses some of them, and raises ``ArrowInvalid`` if it can't.
        kind: Type of the rows.
    """
    return pa.concat_arrays([pa.nulls(0, kind), *_parts(values, parse, kind)])


def _parts(
    values: pa.BinaryArray,
    parse: Callable[[pa.BinaryArray], pa.StructArray],
    kind: pa.StructType,
) -> Iterator[pa.StructArray]:
    if not len(values):
        return
    try:
        yield parse(values)
    except pa.ArrowInvalid:
        if len(values) <= _FEWEST:
            yield pa.nulls(len(values), kind)
            return
        bounds = np.linspace(0, len(values), _PARTS + 1).astype(int)
        for first, stop in pairwise(bounds.tolist()):
            yield from _parts(values.slice(first, stop - first), parse, kind)


def _plausible(values: pa.BinaryArray) -> Mask:
    """Return a mask of the values that begin and end as JSON objects do and are not too large."""
    data, starts, ends = spans(values)
    lengths = ends - starts
    candidates = (lengths >= len("{}")) & (lengths <= _MOST_BYTES)
    candidates &= as_mask(values.is_valid())
    if not candidates.any():
        return candidates
    first = np.where(candidates, starts, starts[candidates][0])
    last = np.where(candidates, ends - 1, first)
    candidates &= (data[first] == ord("{")) & (data[last] == ord("}"))
    (long,) = np.nonzero(candidates & (lengths > _LONG_BYTES))
    if len(long):
        candidates[long] = _are_within_limits(values.take(pa.array(long)))
    return candidates


def _are_within_limits(values: pa.BinaryArray) -> Mask:
    """Return a mask of the values within Spark's limits of JSON nesting and number length."""
    data, starts, ends = spans(values)
    # Square and curly brackets differ in this bit only.
    opens = ((data[starts[0] : ends[-1]] | 0x20) == ord("{")).view(np.uint8)
    nesting = np.add.reduceat(opens, starts - starts[0], dtype=np.int32)
    has_long_number = pc.match_substring_regex(values, f"[0-9]{{{_MOST_DIGITS}}}")
    return (nesting <= _MOST_BRACKETS) & ~as_mask(has_long_number)


def _parsed(values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
    """Parse JSON values at once into rows; one that Spark may read differently becomes null.

    Raises:
        ArrowInvalid: At least one of the values can't be parsed.
    """
    inside = pa.schema(
        field.with_type(pa.string()) if field.type in _PARSED_AS_TEXT else field
        for field in columns
    )
    table, decided = read_table(values, inside)
    check_precision(table)
    arrays = []
    for field in columns:
        array, sure = _fitted(table.column(field.name).combine_chunks(), field.type)
        decided &= sure
        arrays.append(array)
    mask = None if decided.all() else pa.array(~decided)
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=mask)


def read_table(values: pa.BinaryArray, columns: pa.Schema) -> tuple[pa.Table, Mask]:
    """Parse JSON objects by Arrow, all at once.

    Args:
        values: The objects; each begins and ends as one does.
        columns: Members to read, and their types. Other members are ignored.

    Returns:
        A row for each value; and a mask of the values that can be trusted: those without ``NaN`` or
        ``Inf``, of which Arrow accepts more than Spark.

    Raises:
        ArrowInvalid: At least one of the values can't be parsed.
    """
    # JSON strings can't contain a line end, so no object continues after one. Each value begins
    # and ends as an object does: if there are as many rows as values, each value made one row.
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    block = pc.binary_join(whole, b"\n")[0].as_py()
    check_utf8(block)
    options = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    at_once = pa_json.ReadOptions(block_size=len(block), use_threads=False)
    table = pa_json.read_json(pa.BufferReader(block), at_once, options)
    if len(table) != len(values):
        message = "the number of rows is not that of the values"
        raise pa.ArrowInvalid(message)
    decided = np.ones(len(values), np.bool_)
    if b"Inf" in block or b"NaN" in block:
        decided &= ~as_mask(pc.match_substring_regex(values, _NOT_FINITE))
    return table, decided


def _fitted(parsed: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Cast a parsed JSON column; return it with a mask of the values that Spark reads alike."""
    if kind == TIMESTAMP:
        return _instants(parsed)
    if kind == pa.date32():
        _, starts, ends = spans(parsed)
        sure = (ends - starts == len("2024-01-01")) | as_mask(parsed.is_null())
        return _only(parsed, sure).cast(kind), sure
    if kind == pa.float64():
        # Spark reads an integer `-0` as 0, and may refuse numbers that are too large.
        numbers = parsed.fill_null(0).to_numpy(zero_copy_only=False)
        return parsed, np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    return parsed, np.ones(len(parsed), np.bool_)


def _instants(texts: pa.StringArray) -> tuple[pa.TimestampArray, Mask]:
    """Parse timestamps in JSON; return them with a mask of those that Spark reads alike.

    Those are texts with seconds and no zone, ``Z``, or an offset of hours and minutes. What is
    returned for the others means nothing.
    """
    data, starts, ends = spans(texts)
    nulls = as_mask(texts.is_null())
    sure = ends - starts >= _SECONDS_END
    if not sure.any():
        return pa.nulls(len(texts), TIMESTAMP), nulls
    start = np.where(sure, starts, starts[sure][0])
    end = np.where(sure, ends, start + _SECONDS_END)
    from_end = {distance: data[end - distance] for distance in range(1, 7)}
    is_utc = from_end[1] == ord("Z")
    signs = {
        distance: (from_end[distance] == ord("+")) | (from_end[distance] == ord("-"))
        for distance in (3, 5, 6)
    }
    hours = 10 * (from_end[5].astype(int) - ord("0")) + from_end[4] - ord("0")
    has_hours = signs[6] & (from_end[3] == ord(":"))
    has_none = ~(is_utc | signs[3] | signs[5] | signs[6])
    sure &= (data[start + 13] == ord(":")) & (data[start + 16] == ord(":"))
    sure &= is_utc | has_none | (has_hours & (hours <= _MOST_ZONE_HOURS))
    # The timestamps of a topic are usually all written in one way: cast the rest only if needed.
    zoned = pc.cast(_only(texts, sure & ~has_none), TIMESTAMP)
    local = _only(texts, sure & has_none)
    if local.null_count < len(local):
        zoned = pc.coalesce(zoned, local.cast(pa.timestamp("us")).cast(TIMESTAMP))
    return zoned, nulls | sure


def _only(array: pa.Array, kept: Mask) -> pa.Array:
    """Return the array with nulls where the mask is false."""
    return array if kept.all() else pc.if_else(pa.array(kept), array, pa.scalar(None, array.type))
