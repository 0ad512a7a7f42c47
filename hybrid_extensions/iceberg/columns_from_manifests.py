"""Columns that some files of an Iceberg table lack: the partition's value, or it is refused.

A file that was added from a folder such as ``v=a`` lacks the column ``v``: the partition in its
manifest has the value (https://iceberg.apache.org/spec/#column-projection).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    IcebergType,
    NestedField,
    TimestampType,
    TimestamptzType,
)

from hybrid_extensions.iceberg.columns import all_fields
from hybrid_extensions.iceberg.renamed_columns import are_renamed, former_dates, misread_column
from hybrid_extensions.iceberg.stored_files import path_of
from sources.common.schema import field_id
from sources.common.times import EPOCH
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.formats.parquet.footer import read_footer
from sources.storage.folder_partitions import partition_from
from sources.storage.stores import Stores

_NAME_MAPPING = "schema.name-mapping.default"
# As a value of a partition column, Delta's log takes these for null.
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")
_THREADS = 16


class PartitionValues(NamedTuple):
    """Columns whose values are read from the manifests, as some files lack them.

    Attributes:
        columns: Names of the columns; empty if no file lacks one.
        values: For each file, in the order of the scan, the values of these columns as one text,
            which :func:`sources.storage.folder_partitions.values_of` reads.
    """

    columns: list[str]
    values: list[str]


def partition_values(
    source: FileSource,
    scan: DataScan,
    schema: Schema,
    tasks: Sequence[FileScanTask],
    stores: Stores,
) -> PartitionValues:
    """Return the columns that some files lack, and each file's values of them by its partition.

    Files whose manifests do not count the values of a column in question are opened.

    Args:
        source: Declaration of the source, for messages.
        scan: The snapshot.
        schema: The columns to read.
        tasks: Its data files.
        stores: Storages of the pipeline.

    Raises:
        InputError: A file can't be read by Spark: it lacks a column whose value its partition does
            not have, has no field ids, or has older names or types. Or it can't be opened.
        UnavailableError: The storage does not answer.
    """
    specs = scan.table_metadata.specs()
    constants = [_constants(specs[task.file.spec_id], task.file.partition) for task in tasks]
    every = all_fields(schema.fields)
    defaults = {field.field_id: name for name, field in every if field.initial_default is not None}
    partitioned = {number for each in constants for number in each} & schema.field_ids
    lacking = _lacking(source, scan, schema, tasks, partitioned | defaults.keys(), stores)
    names, columns = {field.field_id: field for field in schema.fields}, []
    for number in sorted({each for of in lacking for each in of}):
        first = next(task for task, of in zip(tasks, lacking, strict=True) if number in of)
        if number in defaults and number not in partitioned:
            name = defaults[number]
            reason = f"column `{name}` has an initial default, which the file does not contain"
            raise _rewrite(source, first, reason)
        if number not in names:
            column = schema.find_column_name(number)
            reason = f"it lacks `{column}`, whose value only its partition has"
            raise _rewrite(source, first, reason)
        for task, of, known in zip(tasks, lacking, constants, strict=True):
            _require_value(source, task, names[number], (number in of, number in defaults), known)
        columns.append(names[number])
    return PartitionValues(
        [field.name for field in columns],
        [
            partition_from({f.name: _value(f.field_type, known.get(f.field_id)) for f in columns})
            for known in constants
        ],
    )


def _constants(spec: Any, partition: Any) -> dict[int, Any]:
    """Return the values of a file's partition that are those of a column, by its field id."""
    return {
        field.source_id: partition[at]
        for at, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }


def _lacking(
    source: FileSource,
    scan: DataScan,
    schema: Schema,
    tasks: Sequence[FileScanTask],
    wanted: set[int],
    stores: Stores,
) -> list[set[int]]:
    """Return which of some columns each file lacks; refuse one that can't be read by field ids."""
    may_have_none = _NAME_MAPPING in scan.table_metadata.properties
    is_renamed, dates = are_renamed(scan, schema), former_dates(scan, schema)
    unknown = [wanted - (task.file.value_counts or {}).keys() for task in tasks]

    def look(at: int) -> set[int]:
        path = path_of(tasks[at].file.file_path)
        columns = read_footer(path, stores).schema.to_arrow_schema()
        found = dict(_numbers(columns))
        if not found:
            reason = "it has no field ids, only the table has names for them"
            raise _rewrite(source, tasks[at], reason)
        if is_renamed and (column := misread_column(columns, schema.fields)):
            reason = f"it has `{column}` under an older name, and Spark would mistake its type"
            raise _rewrite(source, tasks[at], reason)
        if former := next((dates[n] for n in dates if _is_date(found.get(n))), None):
            reason = f"it has dates in `{former}`, which became times"
            raise _rewrite(source, tasks[at], reason)
        return unknown[at] - found.keys()

    is_changed = may_have_none or is_renamed or bool(dates)
    to_open = [at for at, of in enumerate(unknown) if of or is_changed]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = dict(zip(to_open, pool.map(look, to_open), strict=True))
    return [found.get(at, set()) for at in range(len(tasks))]


def _numbers(fields: Iterable[pa.Field]) -> Iterable[tuple[int, pa.DataType]]:
    """Yield the ids and types of columns and of all fields inside them."""
    for field in fields:
        if (number := field_id(field)) is not None:
            yield number, field.type
        kind = field.type
        yield from _numbers(kind.field(at) for at in range(kind.num_fields))


def _is_date(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_date(kind))


def _require_value(
    source: FileSource,
    task: FileScanTask,
    field: NestedField,
    lacks: tuple[bool, bool],
    known: dict[int, Any],
) -> None:
    """Refuse a file whose partition does not have the value of a column that other files lack."""
    is_lacking, has_default = lacks
    name, number = field.name, field.field_id
    if number not in known:
        if not is_lacking or has_default:
            what = "lack" if not is_lacking else "tell"
            raise _rewrite(source, task, f"its partition has no `{name}`, which others {what}")
        return
    value = known[number]
    if value is not None and _value(field.field_type, value) is None:
        reason = f"other files lack column `{name}`, whose value in its partition is {value!r}"
        raise _rewrite(source, task, reason)


def _value(kind: IcebergType, value: Any) -> object:
    """Return a value of a partition for Delta's log; None if it is null, or has no such form."""
    match kind, value:
        case DateType(), int():
            return date.min.fromordinal(EPOCH.toordinal() + value)
        case TimestampType() | TimestamptzType(), int():
            return EPOCH + timedelta(microseconds=value)
        case _, bool() | int() | Decimal() | date():
            return value
        case _, str() if value not in _NULLS:
            return value
    return None


def _rewrite(source: FileSource, task: FileScanTask, reason: str) -> InputError:
    path = task.file.file_path
    message = f"Source `{source.name}`: {path} of the Iceberg table can't be read: {reason}."
    hint = (
        "Rewrite the table's data files (`CALL catalog.system.rewrite_data_files(table => …, "
        "options => map('rewrite-all', 'true'))` in Spark), then plan again."
    )
    return InputError(message, hint, source=source.name, file=path)
