"""Listing of an Iceberg snapshot: Parquet only, event times, deletes by position, not by value.

From the snapshot's manifests (https://iceberg.apache.org/spec/#manifests); files without bounds, or
with deleted rows, are opened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from hybrid_extensions.iceberg.columns import mapped_columns
from hybrid_extensions.iceberg.columns_from_manifests import partition_values
from hybrid_extensions.iceberg.stored_files import StoredFiles, path_of
from hybrid_extensions.iceberg.table import open_snapshot
from sources.common.schema import normalize_schema
from sources.common.sql.select import EventColumn
from sources.config.source.file_source import FileSource
from sources.errors import HybridError, InputError
from sources.files.tables.table_files import TableFiles
from sources.files.tables.table_times import FilesOfVersion
from sources.formats.deletion_vectors import deletion_vector
from sources.formats.event_times import EventTimeRange
from sources.formats.parquet.footers import check_event_column
from sources.storage.base import File
from sources.storage.stores import Stores

_NO_DELETES = (
    "Rewrite the table's data files, so that no such delete is left (`CALL catalog.system."
    "rewrite_data_files(table => …, options => map('rewrite-all', 'true', "
    "'remove-dangling-deletes', 'true'))` in Spark); then plan again."
)
Positions = npt.NDArray[np.int64]


def list_iceberg(source: FileSource, path: str, event: EventColumn, stores: Stores) -> TableFiles:
    """Return the data files of an Iceberg table at the declared snapshot, or at the current one.

    Args:
        source: Declaration of the source.
        path: Metadata file or folder of the table, absolute.
        event: Column that holds the event time.
        stores: Storages of the pipeline.

    Raises:
        InputError: There is no such table or snapshot, its event-time column is missing or of a
            wrong type, a column has a type that Spark does not have, a file is not Parquet or can't
            be read, or its deletes are not supported.
        UnavailableError: The storage does not answer.
    """
    scan = open_snapshot(source, path, stores)
    schema = scan.projection()
    mapping = mapped_columns(source.name, schema)
    columns = normalize_schema(schema_to_pyarrow(schema, include_field_ids=False))
    check_event_column(columns, event, path)
    tasks = _tasks(source, scan)
    told = partition_values(source, scan, schema, tasks, stores)
    files = [
        File(path_of(task.file.file_path), task.file.file_size_in_bytes, None, None)
        for task in tasks
    ]
    deleted = _deleted(source, tasks, stores)
    inside = event._replace(may_lack=True, number=mapping.number(event.name))
    paths, rows = [file.path for file in files], [task.file.record_count for task in tasks]
    found = FilesOfVersion(paths, told.values, deleted, rows)
    if event.name in told.columns:
        ranges = found.times_of_partitions(columns.field(event.name), event, stores)
    else:
        known = [_range(task.file, inside) for task in tasks]
        ranges = found.times(known, inside, stores)
    return TableFiles(files, told.values, told.columns, columns, ranges, deleted, mapping, inside)


def _tasks(source: FileSource, scan: DataScan) -> list[FileScanTask]:
    """Return the data files with their delete files."""
    snapshot = scan.snapshot()
    summary = None if snapshot is None else snapshot.summary
    if summary is not None and int(summary["total-equality-deletes"] or 0):
        message = (
            f"Source `{source.name}`: the Iceberg table's files can't be read: it has equality "
            "deletes, which identify deleted rows by values, not by positions."
        )
        raise InputError(message, _NO_DELETES, source=source.name, table=source.shown_place)
    try:
        tasks = list(scan.plan_files())
    except HybridError:
        raise
    except (ValueError, NotImplementedError) as error:
        reason = str(error).strip().removesuffix(".")
        message = f"Source `{source.name}`: the Iceberg snapshot can't be planned: {reason}."
        hint = _NO_DELETES
        if "delete" not in reason.lower():
            hint = "Declare the `version` of another snapshot, or copy the rows to another table."
        raise InputError(message, hint, source=source.name, table=source.shown_place) from None
    except OSError as error:
        raise _missing(source, str(error)) from None
    for task in tasks:
        if task.file.file_format != FileFormat.PARQUET:
            message = (
                f"Source `{source.name}`: {task.file.file_path} of the Iceberg table is of format "
                f"{task.file.file_format.value.lower()}; only Parquet files of Iceberg tables are "
                "read."
            )
            hint = (
                "Rewrite the table's data files as Parquet (in Spark `ALTER TABLE … SET "
                "TBLPROPERTIES ('write.format.default' = 'parquet')`, then `CALL catalog.system."
                "rewrite_data_files(table => …, options => map('rewrite-all', 'true'))`), then "
                "plan again."
            )
            raise InputError(message, hint, source=source.name, file=task.file.file_path)
    return tasks


def _missing(source: FileSource, what: str) -> InputError:
    message = f"Source `{source.name}`: a file of the Iceberg snapshot can't be read: {what}."
    hint = (
        "Restore the file; or declare the `version` of a snapshot that still has all of its files, "
        "then plan again."
    )
    return InputError(message, hint, source=source.name, table=source.shown_place)


def _deleted(
    source: FileSource, tasks: Sequence[FileScanTask], stores: Stores
) -> list[bytes | None]:
    """Return the deletion vector of each data file, from its position deletes."""
    files = StoredFiles(stores)
    positions: dict[str, list[Positions]] = defaultdict(list)
    deletes = {each.file_path: each for task in tasks for each in task.delete_files}
    wanted = {task.file.file_path: {each.file_path for each in task.delete_files} for task in tasks}
    for place, delete in deletes.items():
        try:
            found = list(_read_deletes(source, delete, files))
        except HybridError:
            raise
        except (OSError, ValueError) as error:
            raise _missing(source, f"{place}: {error}") from None
        for path, at in found:
            # A delete file counts for those files only that the snapshot applies it to.
            if place in wanted.get(path, ()):
                positions[path].append(at)
    return [
        deletion_vector(np.unique(np.concatenate(found))) if found else None
        for found in (positions.get(task.file.file_path) for task in tasks)
    ]


def _read_deletes(
    source: FileSource, delete: DataFile, files: StoredFiles
) -> Iterator[tuple[str, Positions]]:
    """Yield paths of data files, and numbers of deleted rows in them, of a delete file."""
    with files.new_input(delete.file_path).open() as file:
        if delete.file_format == FileFormat.PUFFIN:
            for vector in deletion_vectors_from_puffin_file(PuffinFile(bytes(file.read()))):
                yield vector.referenced_data_file, vector.to_vector().to_numpy()
            return
        if delete.file_format == FileFormat.PARQUET:
            for batch in pq.ParquetFile(file).iter_batches(columns=["file_path", "pos"]):
                paths = batch["file_path"].dictionary_encode()
                indices, at = paths.indices.to_numpy(), batch["pos"].to_numpy()
                for index, path in enumerate(paths.dictionary.to_pylist()):
                    yield path, at[indices == index]
            return
    message = (
        f"Source `{source.name}`: the deletes in {delete.file_path} are of format "
        f"{delete.file_format.value.lower()}; those in Parquet and Puffin files are read."
    )
    hint = (
        "Rewrite the table's position deletes as Parquet (in Spark `ALTER TABLE … SET "
        "TBLPROPERTIES ('write.delete.format.default' = 'parquet')`, then `CALL catalog.system."
        "rewrite_position_delete_files(table => …, options => map('rewrite-all', 'true'))`), then "
        "plan again."
    )
    raise InputError(message, hint, source=source.name, file=delete.file_path)


def _range(file: DataFile, event: EventColumn) -> EventTimeRange | None:
    """Return the range of event times by the manifest; None if it has no bounds."""
    number, unit_us = event.number, event.unit_us or 1
    assert number is not None
    nulls = (file.null_value_counts or {}).get(number)
    low, high = (
        bounds.get(number) for bounds in (file.lower_bounds or {}, file.upper_bounds or {})
    )
    if nulls is None or (low is None and nulls != file.record_count):
        return None
    if low is None or high is None:
        return EventTimeRange(file.record_count, None, None, nulls)
    return EventTimeRange(file.record_count, _number(low) * unit_us, _number(high) * unit_us, nulls)


def _number(bound: bytes) -> int:
    """Return a bound of an integer, or of a timestamp in microseconds."""
    return int.from_bytes(bound, "little", signed=True)
