"""Delta log that fixes a stream's files and their order: 10,000 entries a version, checkpoints.

The log points at files that exist already; nothing is copied. Delta's source reads version after
version, and the files of each in the order in which the log lists them
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md). It does so from `startingVersion` on:
without it, version 0 would be read as a snapshot, and that is a Spark job over all its entries
before the first micro-batch begins.

Not written by delta-rs, which takes four times as long, or more, for the same entries in order:
each of its commits reads all entries before it once more (docs/libraries.md).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sources.files.columns.mapped_columns import MappedColumns
from sources.formats.deletion_vectors import as_action
from sources.storage.folder import Folder
from sources.storage.tables.delta import delta_table
from sources.storage.tables.delta_log import LOG, commit_name

CHECKPOINT_EVERY = 50  # versions
ENTRIES_OF_VERSION = 10_000
"""Entries of a version at most: a micro-batch reads those that it takes files from as a whole."""


def versions_of(entries: int) -> list[tuple[int, int]]:
    """Divide the entries of a Delta log into versions of at most 10,000 entries each.

    Args:
        entries: Number of entries.

    Returns:
        For each version the index of its first entry, and the index after its last one. Without
        entries it is one empty version, as a log has to have one to be read.
    """
    starts = range(0, max(entries, 1), ENTRIES_OF_VERSION)
    return [(first, min(first + ENTRIES_OF_VERSION, entries)) for first in starts]


@dataclass(frozen=True)
class Entry:
    """One file in a planned source's Delta log: a data file, or a small table of splits.

    Attributes:
        path: URI of the file, or its path relative to the log's folder.
        size: Size of the file in bytes.
        statistics: Delta's statistics of the file as JSON; None without any.
        partition: Value of each partition column as text, by name; None for null.
        deleted: Deletion vector of the file (:mod:`sources.formats.deletion_vectors`), or None.
    """

    path: str
    size: int
    statistics: str | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    deleted: bytes | None = None


@dataclass(frozen=True)
class FilesOfLog:
    """What all files of a plan's Delta log have in common.

    Attributes:
        columns: The columns of the files, partition columns included.
        partitions: Names of the partition columns, whose values no file holds.
        mapping: Names of the columns inside the files; None if they are the table's own.
        have_deleted: Whether some of them have deletion vectors.
    """

    columns: pa.Schema
    partitions: Sequence[str] = ()
    mapping: MappedColumns | None = None
    have_deleted: bool = False


class PlanLog:
    """Delta log of a planned source: a Delta table whose log this project writes itself.

    Args:
        folder: Folder of the log; Spark reads it as a Delta table once a version is written.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def has(self, version: int) -> bool:
        """Return whether the log has a version: whether its file in the folder exists.

        Raises:
            UnavailableError: The folder's store does not answer.
        """
        return self.folder.exists(commit_name(version))

    def stream(
        self, spark: SparkSession, batch_files: int, batch_bytes: int | None = None
    ) -> DataFrame:
        """Return the rows of the log's files as a stream, in the order of the log.

        The log needs to have a version already; the stream continues with those that are added.

        Args:
            spark: The Spark session.
            batch_files: Highest number of files in one micro-batch.
            batch_bytes: Bytes from which on no further file is added to a micro-batch, which has
                one file at least; None for no such limit.
        """
        reader = spark.readStream.format("delta").option("startingVersion", 0)
        reader = reader.option("maxFilesPerTrigger", batch_files)
        if batch_bytes is not None:
            reader = reader.option("maxBytesPerTrigger", f"{batch_bytes}b")
        return reader.load(self.folder.hadoop_path)

    def complete(self, spark: SparkSession, versions: int) -> None:
        """Mark the log as complete, for queries that are started from now on.

        Without it they list the log at each trigger. It has an effect in S3 only, by this project's
        log store; nothing is written.

        Args:
            spark: The Spark session.
            versions: Number of versions of the log.
        """
        if not self.folder.is_local:
            url = f"{self.folder.hadoop_path}/{LOG}"
            spark.conf.set(f"hybridbackfill.storage.complete:{url}", str(versions))

    def keep(self, name: str, table: pa.Table) -> Entry:
        """Write a table of splits into the log's folder as Parquet, atomically and durably.

        Args:
            name: Name of the file; an existing one is replaced.
            table: The splits.

        Returns:
            The entry that points at the file, for :meth:`write`.

        Raises:
            StateError: The folder can't be written.
            UnavailableError: The folder's store does not answer.
        """
        out = pa.BufferOutputStream()
        pq.write_table(table, out)
        content = out.getvalue().to_pybytes()
        self.folder.replace_bytes(name, content)
        return Entry(name, len(content))

    def write(self, version: int, files: FilesOfLog, entries: Iterable[Entry]) -> None:
        """Write one version of the log, atomically and durably; an existing one is replaced.

        After each 50th a checkpoint of the log is written, too.

        Args:
            version: Its number; versions are written one after the other, from 0.
            files: What all files of the log have in common.
            entries: The files of the version, in reading order.

        Raises:
            InputError: A file has deleted rows, and the extra ``lake`` is not installed.
            StateError: The folder can't be written.
            UnavailableError: The folder's store does not answer.
        """
        header = [] if version else _header(files, self.folder.name)
        lines = (
            f"{json.dumps(action)}\n" for action in chain(header, _adds(entries, files.mapping))
        )
        self.folder.replace_bytes(commit_name(version), "".join(lines).encode())
        if version and version % CHECKPOINT_EVERY == 0:
            # Spark reads a log from its last checkpoint; the log of a folder that fills for months
            # has many versions.
            delta_table(self.folder).create_checkpoint()


def _header(files: FilesOfLog, name: str) -> list[dict[str, Any]]:
    schema, mapping = from_arrow_schema(files.columns).jsonValue(), files.mapping
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    settings = {}
    features = ["deletionVectors"] if files.have_deleted else []
    if mapping is not None:
        fields = [mapping.as_field(field, at) for at, field in enumerate(schema["fields"])]
        schema |= {"fields": fields}
        features.append("columnMapping")
        settings = {"delta.columnMapping.mode": mapping.mode}
    if features:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= dict.fromkeys(("readerFeatures", "writerFeatures"), features)
    return [
        {"protocol": protocol},
        {
            "metaData": {
                # The same if a lost log is written again: the checkpoint refuses another table.
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": list(files.partitions),
                "configuration": settings,
                "createdTime": 0,
            }
        },
    ]


def _adds(
    entries: Iterable[Entry], mapping: MappedColumns | None = None
) -> Iterable[dict[str, Any]]:
    for entry in entries:
        values = dict(entry.partition)
        if mapping is not None:
            values = {mapping.physical(name): value for name, value in values.items()}
        add = {
            "path": entry.path,
            "partitionValues": values,
            "size": entry.size,
            "modificationTime": 0,
            "dataChange": True,
        }
        if entry.statistics is not None:
            add["stats"] = entry.statistics
        if entry.deleted is not None:
            add["deletionVector"] = as_action(entry.deleted)
        yield {"add": add}
