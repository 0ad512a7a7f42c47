"""Writing of rows by the tasks that read them, instead of handing them to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.readers.spark_errors import reporting


class RowWriter(Protocol):
    """Writer of one task's rows, which reports what it has written."""

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Write rows, which may have further columns; yield reports of completed files."""

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write the remaining rows; yield the reports that are left."""


@dataclass(frozen=True)
class RowWriters:
    """Factory of the row writers of a stream's tasks.

    Attributes:
        writer: Returns the writer of a task; called inside it.
        told: Columns of what a writer tells.
        left: That of them in which the number of records is told that a task did not write.
    """

    writer: Callable[[], RowWriter]
    told: pa.Schema
    left: str

    def after(self, read: Step) -> Step:
        """Return a function for ``mapInArrow`` that writes the rows of another such function."""

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = self.writer()
            for rows in read(batches):
                yield from writer.add(rows)
            yield from writer.close()

        return reporting(write)
