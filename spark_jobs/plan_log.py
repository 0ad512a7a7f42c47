"""A Delta log written by hand: what a stream of Delta reads, in which order, and nothing else.

The log points at files that exist already; nothing is copied. Delta's source reads the files of
version 0 in the order of their modification times, which here are their ranks, and those of each
later version after it in the order they are written down
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.pandas.types import from_arrow_schema

CHECKPOINT_EVERY = 50  # versions


@dataclass(frozen=True)
class Entry:
    """One file of the log.

    Attributes:
        path: Its URI, or a path relative to the log's folder.
        size: Bytes.
        statistics: Delta's statistics as JSON, if there are any.
        partition: Values of the partition columns, as text; None for null.
    """

    path: str
    size: int
    statistics: str | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)


class PlanLog:
    """The log of one planned source.

    Args:
        folder: Where it is kept; readable by Spark as a Delta table once a version is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, version: int) -> bool:
        """Whether a version was written."""
        return self._commit(version).exists()

    def keep(self, name: str, table: pa.Table) -> Entry:
        """Write a table of splits beside the log; returns the entry that points at it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        pq.write_table(table, path)
        return Entry(path.name, path.stat().st_size)

    def write(
        self,
        version: int,
        columns: pa.Schema,
        entries: Iterable[Entry],
        partitions: Sequence[str] = (),
    ) -> None:
        """Write a version: all of it, or nothing.

        Args:
            version: 0 for the plan, then one after the other.
            columns: Of the files.
            entries: In reading order.
            partitions: Columns that no file holds.
        """
        commit = self._commit(version)
        commit.parent.mkdir(parents=True, exist_ok=True)
        header = [] if version else _header(columns, partitions)
        temporary = commit.with_name(f".{uuid.uuid4().hex}")
        with temporary.open("w", encoding="utf-8") as file:
            # Line by line: there may be a million of them.
            for action in chain(header, _adds(entries)):
                file.write(f"{json.dumps(action)}\n")
        temporary.replace(commit)
        if version and version % CHECKPOINT_EVERY == 0:
            # Spark reads a log from its last checkpoint; a folder that fills for months has many.
            DeltaTable(str(self.folder)).create_checkpoint()

    def _commit(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"


def _header(columns: pa.Schema, partitions: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": from_arrow_schema(columns).json(),
                "partitionColumns": list(partitions),
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]


def _adds(entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    for rank, entry in enumerate(entries):
        add = {
            "path": entry.path,
            "partitionValues": dict(entry.partition),
            "size": entry.size,
            "modificationTime": rank,
            "dataChange": True,
        }
        yield {"add": add if entry.statistics is None else {**add, "stats": entry.statistics}}
