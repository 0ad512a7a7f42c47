"""Parquet files of the target written by tasks: row groups of 64 MiB, files of 128 MiB, codecs.

Spark writes Parquet row by row; what Python workers have parsed it gets through a pipe before. A
task that writes the columns as it has them needs neither. A file counts once the driver's commit
names it. Those of a task that fails, or of a driver that dies before the commit, are in no log, and
VACUUM removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sources.formats.parquet.table_file import statistics
from sources.storage.folder import Folder

PATH, SIZE, STATISTICS, LEFT = "__path", "__size", "__statistics", "__left"
HELD = "__held"
FILES = pa.schema(
    [
        (PATH, pa.string()),
        (SIZE, pa.int64()),
        (STATISTICS, pa.string()),
        (LEFT, pa.int64()),
        (HELD, pa.string()),
    ]
)
"""What a task tells: of each file its name in the table's folder, bytes and Delta's statistics; in
one more row how many records it has left to Spark, if any; and in another one, as JSON, a list of
topics, partitions and numbers of records whose rows history has, so that they were not written."""
CODECS = ("snappy", "gzip", "zstd", "uncompressed")
"""Values of ``spark.sql.parquet.compression.codec`` that can be written."""
GROUP_BYTES = 64 << 20
"""Bytes of rows in memory from which on they become a row group."""
FILE_BYTES = 128 << 20
"""Bytes of a file from which on the next row group begins another one."""


@dataclass(frozen=True)
class TaskFiles:
    """Settings and factory of the writers by which tasks write Parquet files of the target.

    Attributes:
        folder: The table's folder.
        columns: Columns of the table, which has no partitions, in its order.
        statistics: Columns of which files have statistics.
        codec: How files are compressed: one of :data:`CODECS`.
    """

    folder: Folder
    columns: pa.Schema
    statistics: Sequence[str]
    codec: str = "snappy"

    def writer(self) -> TaskFileWriter:
        """Return the writer of one task; call it inside the task."""
        return TaskFileWriter(self)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows of a task, for ``mapInArrow``; yield the written files as :data:`FILES`.

        A file is part of the table once a commit names it.

        Args:
            batches: Rows; they may have further columns.

        Raises:
            StateError: A file can't be written.
        """
        writer = self.writer()
        for batch in batches:
            yield from writer.add(batch)
        yield from writer.close()


class TaskFileWriter:
    """Writer of one task's rows into Parquet files in the table's folder, of about 128 MiB each.

    Args:
        files: What to write, and where.
    """

    def __init__(self, files: TaskFiles) -> None:
        self._files = files
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._buffer: pa.BufferOutputStream | None = None
        self._parquet: pq.ParquetWriter | None = None

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Write rows, or hold them for the next row group; yield files that are completed by that.

        A generator: nothing is done unless it is consumed.

        Args:
            rows: Rows that have the table's columns; others are left out.

        Yields:
            A row for each file, with the columns of :data:`FILES`.

        Raises:
            StateError: A file can't be written.
        """
        columns = self._files.columns
        if not rows.num_rows:
            return
        arrays = [rows.column(field.name).cast(field.type) for field in columns]
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=columns))
        self._held_bytes += self._held[-1].nbytes
        if self._held_bytes >= GROUP_BYTES:
            self._write_group()
            if self._buffer is not None and self._buffer.tell() >= FILE_BYTES:
                yield self._finish()

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write the rows that are held, and yield the last file, if any; call it once, at the end.

        Raises:
            StateError: A file can't be written.
        """
        if self._held:
            self._write_group()
        if self._parquet is not None:
            yield self._finish()

    def _write_group(self) -> None:
        if self._parquet is None:
            self._buffer = pa.BufferOutputStream()
            codec = self._files.codec
            self._parquet = pq.ParquetWriter(
                self._buffer,
                self._files.columns,
                compression="none" if codec == "uncompressed" else codec,
                # As Spark writes decimals; and without a second schema, in Arrow's terms.
                store_decimal_as_integer=True,
                store_schema=False,
            )
        self._parquet.write_table(pa.Table.from_batches(self._held, self._files.columns))
        self._held, self._held_bytes = [], 0

    def _finish(self) -> pa.RecordBatch:
        """Write the file into the table's folder; return its entry."""
        assert self._parquet is not None
        assert self._buffer is not None
        self._parquet.close()
        data = self._buffer.getvalue()
        self._parquet = self._buffer = None
        files, name = self._files, f"part-{uuid.uuid4().hex}.parquet"
        footer = pq.read_metadata(pa.BufferReader(data))
        files.folder.called("target folder").replace_bytes(name, data.to_pybytes())
        said = statistics(footer, files.columns, files.statistics)
        told = {PATH: name, SIZE: data.size, STATISTICS: said, LEFT: None}
        return pa.RecordBatch.from_pylist([told], schema=FILES)
