"""Iceberg tables on this machine, written by PyIceberg, with files of deletes by position."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

# https://iceberg.apache.org/spec/#position-delete-files
DELETES = Schema(
    NestedField(2147483546, "file_path", StringType(), required=True),
    NestedField(2147483545, "pos", LongType(), required=True),
)


class _DeletesWriter(ManifestWriterV2):
    """PyIceberg writes manifests of data files only."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def catalog(folder: Path) -> SqlCatalog:
    """A catalog in a SQLite file, with the namespace `shop`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = SqlCatalog(
        "prod", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    made.create_namespace_if_not_exists("shop")
    return made


def delete_rows(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    *,
    counts: bool = True,
) -> Table:
    """Commit a snapshot that deletes rows of files by their numbers; return the table after it.

    Args:
        table: The table.
        positions: Numbers of rows by file.
        content: How the file of deletes tells rows.
        counts: Whether the snapshot says how many deletes it has, which is optional.
    """
    folder = f"{table.location()}/data"
    path = f"{folder}/deletes-{uuid.uuid4().hex}.parquet"
    pairs = [(file, at) for file in sorted(positions) for at in sorted(positions[file])]
    rows = pa.table({"file_path": [file for file, _ in pairs], "pos": [at for _, at in pairs]})
    pq.write_table(rows, path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    deletes = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(pairs),
        file_size_in_bytes=size,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        key_metadata=None,
    )
    before = table.current_snapshot()
    assert before is not None
    assert isinstance(table.metadata, TableMetadataV2)
    number, sequence = uuid.uuid4().int >> 66, table.metadata.last_sequence_number + 1
    with _DeletesWriter(
        UNPARTITIONED_PARTITION_SPEC, table.schema(), _output(table, "deletes"), number, "null"
    ) as writer:
        entry = ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=deletes
        )
        writer.add_entry(entry)
    output = _output(table, "snapshot")
    with write_manifest_list(2, output, number, before.snapshot_id, sequence, "null") as manifests:
        manifests.add_manifests([*before.manifests(table.io), writer.to_manifest_file()])
    kind = "equality" if content is DataFileContent.EQUALITY_DELETES else "position"
    total = {f"total-{kind}-deletes": str(len(pairs))} if counts else {}
    after = Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": before.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": output.location,
            "schema-id": table.schema().schema_id,
            "summary": {"operation": "delete", **total},
        }
    )
    reference = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": "branch", "snapshot-id": number}
    )
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=after), reference))
    return table.refresh()


def _output(table: Table, name: str) -> OutputFile:
    return table.io.new_output(f"{table.location()}/metadata/{name}-{uuid.uuid4().hex}.avro")


def add_file(table: Table, rows: pa.Table, *partition: object) -> Table:
    """Commit a file without bounds, with these columns alone, and its partition in the manifest."""
    schema = table.schema()
    ids = [
        field.with_metadata({"PARQUET:field_id": str(schema.find_field(field.name).field_id)})
        for field in rows.schema
    ]
    path = Path(table.location().removeprefix("file://")) / f"data/{uuid.uuid4().hex}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.cast(pa.schema(ids)), path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
        spec_id=table.spec().spec_id,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    return table.refresh()


def change_metadata(table: Table, change: Callable[[dict[str, Any]], object]) -> Path:
    """Write the table's metadata with a change that PyIceberg can't make; return its file."""
    before = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(before.read_text())
    change(document)
    after = before.with_name(f"{uuid.uuid4().hex}.metadata.json")
    after.write_text(json.dumps(document))
    return after
