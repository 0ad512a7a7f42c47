"""JSON objects of a topic, read by Arrow in whole batches, as far as it reads what Spark reads.

Arrow's parser is several times as fast as Spark's ``from_json``, and takes other texts. So it
decides only where both are sure to say the same; all else it leaves to Spark. That is safe by
what each check says; ``tests/e2e/records/test_json_objects.py`` compares the two.

Rules of Spark: https://spark.apache.org/docs/latest/sql-data-sources-json.html; limits of its
parser: https://github.com/FasterXML/jackson-core (``StreamReadConstraints``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import Mask, as_mask, spans
from sources.formats.lines import check_digits, check_text

_OF_TEXT = (pa.date32(), TIMESTAMP)

# No name in such a record is longer than Spark's parser allows.
_MOST_BYTES = 50_000
# Only longer ones can be nested, or have numbers, beyond what Spark's parser allows: 1,000 each.
_LONG_BYTES = _MOST_BRACKETS = 900
# A number of that many characters has a run of digits of a third of it: between are `.` and `e`.
_MOST_DIGITS = 300
# Arrow takes more of these words than Spark does.
_NOT_FINITE = r"[:,\[\s-](Inf|NaN)"
# Where a batch is not read at once, by how many it is divided, and when that ends.
_PARTS = 8
_FEWEST = 200
_SECONDS_END = 19
_MOST_ZONE_HOURS = 17


def reads(columns: pa.Schema) -> bool:
    """Whether Arrow reads these columns as Spark does; else :func:`read_objects` is not for them.

    Not ``float``, which the two round in different ways, nor ``binary`` and what is nested.
    """
    return all(
        pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or kind in (pa.bool_(), pa.float64(), pa.string(), pa.date32(), TIMESTAMP)
        for kind in columns.types
    )


def read_objects(values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
    """The members of JSON objects, of those that Arrow reads as Spark does.

    Args:
        values: UTF-8 text, or whatever is there instead.
        columns: Wanted members; :func:`reads` is true of them.

    Returns:
        As long as the values. A null says nothing of the value: Spark has to read it.
    """
    # Spark may be told to use other types of Arrow.
    values = values.cast(pa.binary())
    wanted = _plausible(values)
    kept = values if wanted.all() else values.filter(pa.array(wanted))
    kind = pa.struct(columns)
    rows = pa.concat_arrays([pa.nulls(0, kind), *_read(kept, columns)])
    if len(kept) < len(values):
        rows = rows.take(pa.array(np.cumsum(wanted) - 1, mask=~wanted))
    return rows


def _read(values: pa.BinaryArray, columns: pa.Schema) -> Iterator[pa.StructArray]:
    """The rows, in parts; a part that can't be read is divided."""
    if not len(values):
        return
    try:
        yield _parsed(values, columns)
    except pa.ArrowInvalid:
        if len(values) <= _FEWEST:
            yield pa.nulls(len(values), pa.struct(columns))
            return
        bounds = np.linspace(0, len(values), _PARTS + 1).astype(int)
        for first, stop in pairwise(bounds.tolist()):
            yield from _read(values.slice(first, stop - first), columns)


def _plausible(values: pa.BinaryArray) -> Mask:
    """Which values begin and end as an object does, and stay within all limits."""
    data, starts, ends = spans(values)
    lengths = ends - starts
    wanted = (lengths >= len("{}")) & (lengths <= _MOST_BYTES)
    wanted &= as_mask(values.is_valid())
    if not wanted.any():
        return wanted
    first = np.where(wanted, starts, starts[wanted][0])
    last = np.where(wanted, ends - 1, first)
    wanted &= (data[first] == ord("{")) & (data[last] == ord("}"))
    (long,) = np.nonzero(wanted & (lengths > _LONG_BYTES))
    if len(long):
        wanted[long] = _are_within_limits(values.take(pa.array(long)))
    return wanted


def _are_within_limits(values: pa.BinaryArray) -> Mask:
    data, starts, ends = spans(values)
    # Both kinds of brackets: they differ in that bit.
    opens = ((data[starts[0] : ends[-1]] | 0x20) == ord("{")).view(np.uint8)
    nesting = np.add.reduceat(opens, starts - starts[0], dtype=np.int32)
    has_long_number = pc.match_substring_regex(values, f"[0-9]{{{_MOST_DIGITS}}}")
    return (nesting <= _MOST_BRACKETS) & ~as_mask(has_long_number)


def _parsed(values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray:
    """The rows; null are those of which it is not sure.

    Raises:
        ArrowInvalid: One value at least is not read.
    """
    # A line end can be in no string, so no object goes on behind one: each value begins and ends
    # as an object does, and as many rows as values are a row of each.
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    block = pc.binary_join(whole, b"\n")[0].as_py()
    check_text(block)
    inside = pa.schema(
        field.with_type(pa.string()) if field.type in _OF_TEXT else field for field in columns
    )
    options = pa_json.ParseOptions(explicit_schema=inside, unexpected_field_behavior="ignore")
    at_once = pa_json.ReadOptions(block_size=len(block), use_threads=False)
    table = pa_json.read_json(pa.BufferReader(block), at_once, options)
    if len(table) != len(values):
        message = "there are more rows than values"
        raise pa.ArrowInvalid(message)
    check_digits(table)
    decided = np.ones(len(values), np.bool_)
    if b"Inf" in block or b"NaN" in block:
        decided &= ~as_mask(pc.match_substring_regex(values, _NOT_FINITE))
    arrays = []
    for field in columns:
        array, sure = _fitted(table.column(field.name).combine_chunks(), field.type)
        decided &= sure
        arrays.append(array)
    mask = None if decided.all() else pa.array(~decided)
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=mask)


def _fitted(found: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """A column in its type, and of which values that is sure; the others may be anything."""
    if kind == TIMESTAMP:
        return _instants(found)
    if kind == pa.date32():
        _, starts, ends = spans(found)
        sure = (ends - starts == len("2024-01-01")) | as_mask(found.is_null())
        return _only(found, sure).cast(kind), sure
    if kind == pa.float64():
        # Of an integer `-0` Spark makes 0, and too large ones it may refuse.
        numbers = found.fill_null(0).to_numpy(zero_copy_only=False)
        return found, np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    return found, np.ones(len(found), np.bool_)


def _instants(texts: pa.StringArray) -> tuple[pa.TimestampArray, Mask]:
    """Instants with their seconds; with a zone, if any, that is `Z` or hours and minutes."""
    data, starts, ends = spans(texts)
    nulls = as_mask(texts.is_null())
    sure = ends - starts >= _SECONDS_END
    if not sure.any():
        return pa.nulls(len(texts), TIMESTAMP), nulls
    start = np.where(sure, starts, starts[sure][0])
    end = np.where(sure, ends, start + _SECONDS_END)
    from_end = {at: data[end - at] for at in range(1, 7)}
    is_utc = from_end[1] == ord("Z")
    signs = {at: (from_end[at] == ord("+")) | (from_end[at] == ord("-")) for at in (3, 5, 6)}
    hours = 10 * (from_end[5].astype(int) - ord("0")) + from_end[4] - ord("0")
    has_hours = signs[6] & (from_end[3] == ord(":"))
    has_none = ~(is_utc | signs[3] | signs[5] | signs[6])
    sure &= (data[start + 13] == ord(":")) & (data[start + 16] == ord(":"))
    sure &= is_utc | has_none | (has_hours & (hours <= _MOST_ZONE_HOURS))
    # All of a topic are written in one way, as a rule.
    zoned = pc.cast(_only(texts, sure & ~has_none), TIMESTAMP)
    local = _only(texts, sure & has_none)
    if local.null_count < len(local):
        zoned = pc.coalesce(zoned, local.cast(pa.timestamp("us")).cast(TIMESTAMP))
    return zoned, nulls | sure


def _only(array: pa.Array, kept: Mask) -> pa.Array:
    """The array with nulls elsewhere."""
    return array if kept.all() else pc.if_else(pa.array(kept), array, pa.scalar(None, array.type))
