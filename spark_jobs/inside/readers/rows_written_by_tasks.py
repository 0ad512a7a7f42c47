"""Writing of rows by the tasks that read them, instead of handing them to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.errors.error_reports import reporting


class RowWriter(Protocol):
    """Interface of a writer of one Spark task's rows into files of the table.

    It reports each completed file, and at the end how many records the task has left to Spark.
    """

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Write rows, which may have further columns; yield the reports of files completed by that.

        It is a generator: nothing is written unless it is consumed.
        """

    def close(self) -> Iterator[pa.RecordBatch]:
        """Write the rows that are left and yield the remaining reports; call it at the end."""


@dataclass(frozen=True)
class RowWriters:
    """Factory of the row writers of a stream's tasks, which is sent to the tasks.

    Attributes:
        writer: Returns the writer of a task; called inside it.
        told: Columns of a writer's reports.
        left: Name of the column with the number of records that a task has left to Spark.
        held: Name of the column with the numbers of records that a task has left out, as history
            has their rows.
    """

    writer: Callable[[], RowWriter]
    told: pa.Schema
    left: str
    held: str

    def after(self, read: Step) -> Step:
        """Return a ``mapInArrow`` function that writes the rows which another one returns.

        It returns the writer's reports, with the columns ``told``.
        """

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = self.writer()
            for rows in read(batches):
                yield from writer.add(rows)
            yield from writer.close()

        return reporting(write)
