"""Renamed and altered columns of an Iceberg table that Spark would misread.

Spark finds a column by its field id, but asks the column of the same name for the type to read it
as (``ParquetToSparkSchemaConverter``). So a file that has a column under an older name is read
right only if its type is still the same, and no other column of another type took the name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan
from pyiceberg.types import DateType, ListType, MapType, NestedField

from hybrid_extensions.iceberg.columns import all_fields, children
from sources.common.schema import field_id, normalize_schema


def are_renamed(scan: DataScan, schema: Schema) -> bool:
    """Return whether a column to read, or a field inside, had another name in an older schema."""
    names: dict[int, set[str]] = defaultdict(set)
    for each in scan.table_metadata.schemas:
        for _, field in all_fields(each.fields):
            names[field.field_id].add(field.name)
    return any(len(names[field.field_id]) > 1 for _, field in all_fields(schema.fields))


def former_dates(scan: DataScan, schema: Schema) -> dict[int, str]:
    """Return the columns that changed from dates to times, as full names by field id; maybe none.

    Spark's reader does not make times of the dates in older files.
    """
    older = [field for each in scan.table_metadata.schemas for _, field in all_fields(each.fields)]
    dates = {field.field_id for field in older if isinstance(field.field_type, DateType)}
    return {
        field.field_id: name
        for name, field in all_fields(schema.fields)
        if field.field_id in dates and not isinstance(field.field_type, DateType)
    }


def misread_column(file: Iterable[pa.Field], columns: Sequence[NestedField]) -> str | None:
    """Return the full name of a column of a file that Spark would read with a wrong type.

    Args:
        file: Columns of a Parquet file, or fields of a struct in it, with their field ids.
        columns: The columns to read, or those of the struct.

    Returns:
        None if there is none.

    Raises:
        InputError: Spark has no type for a column of the file.
    """
    by_id = {column.field_id: column for column in columns}
    by_name = {column.name.casefold(): column for column in columns}
    for field in file:
        column = by_id.get(field_id(field) or 0)
        if column is None:
            continue
        asked = by_name.get(field.name.casefold())
        if asked is column:
            found = _inside(field, column)
        elif asked is None:
            found = None if _is_same(field, column) else ""
        else:
            found = None if asked.field_type == column.field_type else ""
        if found is not None:
            return f"{column.name}.{found}" if found else column.name
    return None


def _inside(field: pa.Field, column: NestedField) -> str | None:
    inner = [field.type.field(at) for at in range(field.type.num_fields)]
    if isinstance(column.field_type, MapType):
        inner = [part.type.field(at) for part in inner for at in range(part.type.num_fields)]
        pairs = zip(inner, children(column), strict=False)
        return next((found for pair in pairs if (found := _inside(*pair)) is not None), None)
    if isinstance(column.field_type, ListType) and inner:
        return _inside(inner[0], column.field_type.element_field)
    return misread_column(inner, children(column))


def _is_same(field: pa.Field, column: NestedField) -> bool:
    """Return whether a column of a file has the type that it is read as, at all depths."""
    if children(column):
        return not any(
            not _is_same(part, child)
            for part in _all_of_file(field)
            for _, child in all_fields(children(column))
            if field_id(part) == child.field_id
        )
    wanted = normalize_schema(schema_to_pyarrow(Schema(column), include_field_ids=False))
    return bool(normalize_schema(pa.schema([field])).field(0).type == wanted.field(0).type)


def _all_of_file(field: pa.Field) -> Iterable[pa.Field]:
    for at in range(field.type.num_fields):
        part = field.type.field(at)
        yield part
        yield from _all_of_file(part)
