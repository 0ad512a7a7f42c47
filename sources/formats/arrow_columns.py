"""Conversion of what Arrow has read to Spark's types: no loss, but nanoseconds are cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP, type_name


def in_columns(
    rows: int, values: Mapping[str, Callable[[], pa.Array]], columns: pa.Schema
) -> pa.RecordBatch:
    """Build a batch of given columns from values, converted to their types; a missing one is null.

    Args:
        rows: Number of rows.
        values: By column name, a function that returns the column's values.
        columns: Columns of the batch, in types that Spark has.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit its column; names the column.
    """
    arrays = []
    for field in columns:
        try:
            read = values.get(field.name)
            array = pa.nulls(rows, field.type) if read is None else as_column(read(), field.type)
        except pa.ArrowException as error:
            what = f"a value of column `{field.name}` is not a valid {type_name(field.type)}"
            message = f"{what}: {error}"
            raise pa.ArrowInvalid(message) from None
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def batch_in_columns(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Convert a record batch to exactly the given columns; one that it lacks is null.

    Other columns of it are left out.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit its column; names the column.
    """
    values = {name: partial(batch.column, name) for name in batch.schema.names}
    return in_columns(batch.num_rows, values, columns)


def as_column(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to a column's type without loss, except nanoseconds, which are cut off.

    They are rounded down, also before 1970. A column that is null throughout fits every type.
    Fields of structs are matched by name; one that is missing is null.

    Args:
        values: The values, in the type that Arrow read them in.
        kind: A type that Spark has (:func:`sources.common.schema.normalize`).

    Raises:
        pyarrow.ArrowException: A value does not fit the type.
    """
    if values.type == kind:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_timestamp(values.type) and kind == TIMESTAMP:
        if values.type.unit == "ns":
            values = pc.floor_temporal(values, unit="microsecond")
        return values.cast(kind)
    if values.null_count == len(values):
        return pa.nulls(len(values), kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        parts = dict(zip(values.type.names, values.flatten(), strict=True))
        fields = [
            as_column(parts[field.name], field.type)
            if field.name in parts
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        values = _from_its_start(values)
        keys, items = as_column(values.keys, kind.key_type), as_column(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, kind, mask=_mask(values))
    if pa.types.is_list(kind) and not pa.types.is_list(values.type):
        own = pa.list_(values.type.value_type)
        # Arrow 26 loses items when it casts a list view.
        values = pa.array(values.to_pylist(), own) if _is_view(values) else values.cast(own)
    if pa.types.is_list(kind):
        values = _from_its_start(values)
        items = as_column(values.values, kind.value_type)
        return pa.ListArray.from_arrays(values.offsets, items, kind, mask=_mask(values))
    return values.cast(kind)


def _from_its_start(values: pa.Array) -> pa.Array:
    """Return a list or map whose offsets begin at its first row: a slice has those of the whole."""
    return values.take(pa.array(range(len(values)))) if values.offset else values


def _is_view(values: pa.Array) -> bool:
    kind = values.type
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def leaf_values(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the primitive values of a column: those in its structs, lists and maps, or its own.

    Keys of maps are left out.
    """
    if pa.types.is_struct(values.type):
        for part in values.flatten():
            yield from leaf_values(part)
    elif pa.types.is_map(values.type):
        yield from leaf_values(values.items)
    elif pa.types.is_list(values.type):
        yield from leaf_values(values.flatten())
    else:
        yield values
