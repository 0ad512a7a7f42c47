"""Debezium's JSON envelopes in batches: changes are parsed like one decoded before (model).

Changes of one table mostly have the same members. One of them, the model, is decoded alone, with
all checks; those that are written like it are parsed together. A value that holds anything unusual
is undecided, and decoded alone, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hybrid_extensions.cdc.debezium.positions import FAILOVER, positions_of
from hybrid_extensions.cdc.debezium.unchanged_long_values import Placeholder
from hybrid_extensions.cdc.debezium.values import DECIMAL, YEAR, YEAR_ZERO, micros_of_unit
from sources.common.conversion import BadValue, converter, to_arrow_array
from sources.common.schema import TIMESTAMP
from sources.decoding.batch_cursor import DAYS, MICROS, Int64Array, Mask, as_mask, spans
from sources.decoding.changes.envelopes import MYSQL_JSON, Encoding
from sources.decoding.json.batches import in_parts, read_table
from sources.decoding.json.shapes import JsonShapes
from sources.decoding.record_columns import EnvelopePart

# Different shapes that are looked for in a batch: of each op, before and after an ALTER.
_MOST_MODELS = 16
FEWEST = 16
"""Values up to which they are decoded one by one, in less time."""
# Python's parser refuses half of a surrogate pair, Arrow's may not.
_SURROGATE = r"\\u[dD][89a-fA-F]"
_ORIGIN = {
    **dict.fromkeys(("connector", "schema", "db", "table", "snapshot"), pa.string()),
    **dict.fromkeys(("sequence", "gtid", "file"), pa.string()),
    **dict.fromkeys(("ts_ms", "lsn", "txId", "pos", "row"), pa.int64()),
}
_TABLE = ("connector", "schema", "db", "table")


class ModelColumn(NamedTuple):
    """How one column is decoded in changes that resemble a model.

    Attributes:
        name: Name of the column.
        member: Name of the member of the row that fills it; None if the row has none.
        raw: The model's value of this member.
        encoding: How the envelope's schema describes the member.
        read: Function from a value and this encoding to the column's value.
        default: What the column holds if the row has no such member.
    """

    name: str
    member: str | None
    raw: Any
    encoding: Encoding
    read: Callable[[Any, Encoding], Any]
    default: Any


class Model(NamedTuple):
    """A change that was decoded by itself and serves as the template for similar changes.

    Attributes:
        head: Bytes in front of the payload (the schema), up to and with its name; empty without a
            schema.
        columns: How the table's columns are decoded.
        parts: Part of the envelope by the column that it fills.
        placeholder: Recognizes values that the log lacks.
    """

    head: bytes
    columns: Sequence[ModelColumn]
    parts: Mapping[str, EnvelopePart]
    placeholder: Placeholder


def read_envelopes(
    values: pa.BinaryArray, columns: pa.Schema, model_of: Callable[[bytes], Model | None]
) -> pa.StructArray:
    """Decode JSON envelopes into rows, in groups that resemble a change decoded before.

    Returns a row for each value, in their order; a value that needs the per-record decoder becomes
    a null row. Raises nothing for a value.

    Args:
        values: The values.
        columns: The columns of a row.
        model_of: Returns how values like a given one are decoded; None if each such value has to be
            decoded alone.
    """
    kind = pa.struct(columns)
    order = np.zeros(len(values), np.int64)
    decoded, count = [pa.nulls(1, kind)], 1
    for payloads, places, model in _groups(values, model_of):
        rows = in_parts(payloads, lambda part: _rows(part, columns, model), kind)  # noqa: B023
        order[places] = count + np.arange(len(rows))
        decoded.append(rows)
        count += len(rows)
    return pa.concat_arrays(decoded).take(pa.array(order))


def _groups(
    values: pa.BinaryArray, model_of: Callable[[bytes], Model | None]
) -> Iterator[tuple[pa.BinaryArray, Int64Array, Model]]:
    """Yield payloads that resemble one model, the indexes of their values, and the model."""
    left = np.flatnonzero(as_mask(values.is_valid()))
    for _ in range(_MOST_MODELS):
        if len(left) < FEWEST:
            return
        first = model_of(values[int(left[0])].as_py())
        if first is None:
            left = left[1:]
            continue
        some = values if len(left) == len(values) else values.take(pa.array(left))
        payloads, has_head = _payloads(some, first.head)
        yield from _shapes(payloads, left[has_head], values, model_of)
        # The first one is over, whatever became of it.
        left = left[1:][~has_head[1:]]


def _shapes(
    payloads: pa.BinaryArray,
    places: Int64Array,
    values: pa.BinaryArray,
    model_of: Callable[[bytes], Model | None],
) -> Iterator[tuple[pa.BinaryArray, Int64Array, Model]]:
    """Yield the groups of payloads that share a head, as :func:`_groups` does."""
    shapes = JsonShapes(payloads)
    is_left = np.ones(len(payloads), np.bool_)
    for _ in range(_MOST_MODELS):
        (left,) = np.nonzero(is_left)
        if len(left) < FEWEST:
            return
        at = int(left[0])
        model = model_of(values[int(places[at])].as_py())
        alike = shapes.like(at) & is_left
        is_left[at] = False
        if model is not None and alike[at]:
            is_left &= ~alike
            yield payloads.filter(pa.array(alike)), places[alike], model


def _payloads(values: pa.BinaryArray, head: bytes) -> tuple[pa.BinaryArray, Mask]:
    """Return the payloads of the values that have a head, and which of the values these are."""
    if not head:
        return values, np.ones(len(values), np.bool_)
    has_head = pc.and_(pc.starts_with(values, head), pc.ends_with(values, "}}"))
    inside = pc.binary_slice(values.filter(has_head), len(head), -1)
    return inside, as_mask(has_head)


def _rows(payloads: pa.BinaryArray, columns: pa.Schema, model: Model) -> pa.StructArray:
    """Parse envelopes that are like the model.

    Raises:
        ArrowInvalid: At least one of them can't be parsed.
    """
    read = [each for each in model.columns if each.name in columns.names]
    members = {each.member: _raw_type(each, columns) for each in read if each.member}
    row = pa.struct(members)
    schema = {"before": row, "after": row, "source": pa.struct(_ORIGIN)}
    table, sure = read_table(
        payloads, pa.schema({**schema, FAILOVER: pa.string(), "op": pa.string()})
    )
    if b"\\u" in spans(payloads)[0].tobytes():
        sure &= ~as_mask(pc.match_substring_regex(payloads, _SURROGATE))
    envelope = {name: table.column(name).combine_chunks() for name in table.column_names}
    op = envelope["op"]
    sure &= as_mask(pc.is_in(op, pa.array(["c", "u", "r", "d"])))
    is_delete = pc.fill_null(pc.equal(op, "d"), fill_value=False)
    before, after = envelope["before"], envelope["after"]
    sure &= as_mask(pc.if_else(is_delete, before.is_valid(), after.is_valid()))
    origin = dict(zip(_ORIGIN, envelope["source"].flatten(), strict=True))
    sure &= _is_of_one_table(origin)
    found: dict[str, pa.Array] = {}
    sides = [dict(zip(members, side.flatten(), strict=True)) for side in (before, after)]
    for each in read:
        field = columns.field(each.name)
        if each.member is None:
            found[each.name] = to_arrow_array([each.default] * len(payloads), field.type)
            continue
        values = pc.if_else(is_delete, *(side[each.member] for side in sides))
        found[each.name], is_read = _column(values, field.type, each, model.placeholder)
        sure &= is_read
    for name, part in model.parts.items():
        found[name], is_read = _part(part, op, is_delete, origin, envelope[FAILOVER])
        found[name] = found[name].cast(columns.field(name).type)
        sure &= is_read
    arrays = [found[name] for name in columns.names]
    mask = None if sure.all() else pa.array(~sure)
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=mask)


def _is_of_one_table(origin: Mapping[str, pa.Array]) -> Mask:
    """Return which changes are of the connector and the table of the first one, the model."""
    same = np.ones(len(origin["table"]), np.bool_)
    for name in _TABLE:
        first = origin[name][0]
        is_same = pc.equal(origin[name], first) if first.is_valid else origin[name].is_null()
        same &= as_mask(pc.fill_null(is_same, fill_value=False))
    return same


def _raw_type(column: ModelColumn, columns: pa.Schema) -> pa.DataType:
    """Return the type of a column's values in the envelope.

    Values of another type than that are undecided: Arrow then refuses to parse them.
    """
    kind = columns.field(column.name).type
    if pa.types.is_floating(kind) and not isinstance(column.raw, str):
        return pa.float64()
    of_python = {bool: pa.bool_(), int: pa.int64(), str: pa.string()}
    if (found := of_python.get(type(column.raw))) is not None:
        return found
    if pa.types.is_integer(kind) or kind == pa.date32():
        return pa.int64()
    if kind == TIMESTAMP and micros_of_unit(column.encoding) is not None:
        return pa.int64()
    return pa.bool_() if kind == pa.bool_() else pa.string()


def _column(
    raw: pa.Array, kind: pa.DataType, column: ModelColumn, placeholder: Placeholder
) -> tuple[pa.Array, Mask]:
    """Convert a column's values; return them, and which of them are certain."""
    nulls = as_mask(raw.is_null())
    if raw.type == pa.string():
        usable = ~as_mask(placeholder.are(raw))
        if kind == pa.string() and column.encoding.name not in (DECIMAL, MYSQL_JSON):
            return raw, usable
        found, sure = _one_by_one(raw, kind, column)
        return found, sure & usable
    if raw.type == kind == pa.bool_():
        return raw, np.ones(len(raw), np.bool_)
    if raw.type == pa.float64() and pa.types.is_floating(kind):
        return _doubles(raw, kind)
    if raw.type == pa.int64():
        numbers = raw.fill_null(0).to_numpy()
        if pa.types.is_integer(kind):
            if column.encoding.name == YEAR:
                numbers = np.where(numbers == YEAR_ZERO, 0, numbers)
            most = 1 << kind.bit_width - 1
            return _within(numbers, nulls, (-most, most - 1), kind)
        if kind == pa.date32():
            return _within(numbers, nulls, DAYS, kind)
        if kind == TIMESTAMP and (unit := micros_of_unit(column.encoding)) is not None:
            return _instants(raw, unit)
    return _one_by_one(raw, kind, column)


def _within(
    numbers: Int64Array, nulls: Mask, bounds: tuple[int, int], kind: pa.DataType
) -> tuple[pa.Array, Mask]:
    """Return integers as a narrower type, and which of them it holds."""
    is_held = nulls | ((numbers >= bounds[0]) & (numbers <= bounds[1]))
    held = pa.array(np.where(is_held, numbers, 0), pa.int64(), mask=nulls)
    return held.cast(pa.int32() if kind == pa.date32() else kind).cast(kind), is_held


def _instants(raw: pa.Int64Array, unit: int) -> tuple[pa.TimestampArray, Mask]:
    """Return numbers of some microseconds as instants, and which are in the years 1 to 9999."""
    nulls = as_mask(raw.is_null())
    numbers = raw.fill_null(0).to_numpy()
    is_held = nulls | ((numbers >= -(-MICROS[0] // unit)) & (numbers <= MICROS[1] // unit))
    micros = np.where(is_held, numbers, 0) * unit
    return pa.array(micros, pa.int64(), mask=nulls).cast(TIMESTAMP), is_held


def _doubles(raw: pa.DoubleArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Return finite numbers; an integer ``-0`` has no sign in Python."""
    numbers = raw.fill_null(0).to_numpy(zero_copy_only=False)
    sure = np.isfinite(numbers) & ~((numbers == 0) & np.signbit(numbers))
    if kind == pa.float32():
        sure &= np.abs(numbers) <= np.finfo(np.float32).max
        return raw.cast(kind, safe=False), sure
    return raw, sure


def _one_by_one(raw: pa.Array, kind: pa.DataType, column: ModelColumn) -> tuple[pa.Array, Mask]:
    """Convert values by the functions that decode a change alone."""
    convert, read, encoding = converter(kind), column.read, column.encoding
    found: list[Any] = []
    sure = np.ones(len(raw), np.bool_)
    for at, value in enumerate(raw.to_pylist()):
        try:
            found.append(None if value is None else convert(read(value, encoding)))
        except BadValue:
            found.append(None)
            sure[at] = False
    return to_arrow_array(found, kind), sure


def _part(
    part: EnvelopePart,
    op: pa.StringArray,
    is_delete: pa.BooleanArray,
    origin: Mapping[str, pa.Array],
    failovers: pa.StringArray,
) -> tuple[pa.Array, Mask]:
    """Return a part of the envelopes, and which are certain."""
    sure = np.ones(len(op), np.bool_)
    if part == "position":
        return positions_of(op, origin, failovers)
    if part == "op":
        return op, sure
    if part == "deleted":
        return is_delete, sure
    if part == "lsn":
        return origin["lsn"], sure
    if part == "transaction":
        nothing = pa.scalar(None, pa.int64())
        return pc.if_else(pc.equal(op, "r"), nothing, origin["txId"]), sure
    if part == "committed_at":
        return _instants(origin["ts_ms"], 1000)
    return pa.nulls(len(op)), sure
