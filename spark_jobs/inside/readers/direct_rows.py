"""Rows that the tasks which read them write themselves, instead of handing them over to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from spark_jobs.inside.readers.spark_errors import Step, reporting


class RowWriter(Protocol):
    """Writer of the rows of one task, which says what it has written."""

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows, which may have further columns; yield what is complete by then."""

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write the rest; yield what was not told before."""


@dataclass(frozen=True)
class RowWriters:
    """How the tasks of a stream write their rows.

    Attributes:
        writer: Returns the writer of a task; called inside it.
        told: Columns of what a writer tells.
        left: That of them in which the number of records is told that a task did not write.
    """

    writer: Callable[[], RowWriter]
    told: pa.Schema
    left: str

    def after(self, read: Step) -> Step:
        """Return a function for ``mapInArrow`` that writes the rows which another one returns."""

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = self.writer()
            for rows in read(batches):
                yield from writer.add(rows)
            yield from writer.close()

        return reporting(write)
