"""Rows of Parquet files read by Arrow: of whole files, or those that arrived within an interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sources.common.schema import normalize_schema
from sources.formats.arrow_columns import batch_in_columns
from sources.formats.event_times import microseconds
from sources.formats.file_regions import Region
from sources.formats.julian_calendar import gregorian
from sources.formats.lines import OnBad, refuse
from sources.formats.parquet.file import parquet_file
from sources.formats.row_check import RowCheck


class ParquetRows:
    """Reader of Parquet files by Arrow, each as a whole.

    Implements :class:`sources.formats.base.Format`. For files that Spark's own reader does not
    accept: with times of nanoseconds, or columns that are null throughout.
    """

    title = "Parquet"
    splits = False
    checks = False

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """Return the columns of a Parquet file's footer, in the types that Spark has.

        A column that is null throughout stays one of Arrow's type null.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """
        return normalize_schema(parquet_file(file).schema_arrow, may_be_open=True)

    def rows(self, file: pa.NativeFile) -> int:
        """Return the number of rows that a Parquet file's footer contains.

        Raises:
            pyarrow.ArrowException: The file is damaged.
        """
        rows: int = parquet_file(file).metadata.num_rows
        return rows

    def read(
        self,
        file: pa.NativeFile,
        _: Region,
        columns: pa.Schema,
        __: OnBad = refuse,
        ___: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file; timestamps of nanoseconds are cut off to microseconds.

        In batches with exactly ``columns``, in the order of the file. Region, handler of bad rows
        and check are ignored. A column that the file lacks is null.

        Raises:
            InputError: A date or time is of the Julian calendar.
            pyarrow.ArrowException: The file is damaged, or a column can't be cast to its type.
        """
        parquet = parquet_file(file)
        marks = parquet.metadata.metadata or {}
        for batch in parquet.iter_batches(columns=columns.names):
            yield gregorian(batch_in_columns(batch, columns), marks, "parquet")


@dataclass(frozen=True)
class ArrivedRows(ParquetRows):
    """Reader of the rows of a Parquet file that arrived within an interval.

    Implements :class:`sources.formats.base.Format`. Row groups whose statistics lie outside of the
    interval are not read.

    Attributes:
        column: Column with the time of arrival, or with the offset.
        first: Start of the interval: microseconds since 1970, or an offset.
        after: End of the interval, exclusive, likewise.
    """

    column: str
    first: int
    after: int

    def read(
        self,
        file: pa.NativeFile,
        _: Region,
        columns: pa.Schema,
        __: OnBad = refuse,
        ___: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that arrived within the interval, in the order of the file.

        In batches with exactly ``columns``; nothing without such a row. Timestamps of nanoseconds
        are cut off to microseconds. Region, handler of bad rows and check are ignored. A column
        that the file lacks is null; that of arrival it must have.

        Raises:
            InputError: A date or time is of the Julian calendar.
            pyarrow.ArrowException: The file is damaged, or a column can't be cast to its type.
        """
        parquet = parquet_file(file)
        groups = [
            at for at in range(parquet.metadata.num_row_groups) if self._may_hold(parquet, at)
        ]
        names = list(dict.fromkeys([*columns.names, self.column]))
        marks = parquet.metadata.metadata or {}
        for batch in parquet.iter_batches(row_groups=groups, columns=names):
            arrived = arrival_numbers(pa.chunked_array([batch[self.column]]))
            within = pc.and_(pc.greater_equal(arrived, self.first), pc.less(arrived, self.after))
            rows = batch.filter(within.combine_chunks())
            if len(rows):
                yield gregorian(batch_in_columns(rows, columns), marks, "parquet")

    def _may_hold(self, parquet: pq.ParquetFile, group: int) -> bool:
        """Return whether a row group may have rows of the interval, by its statistics."""
        leaves = [parquet.schema.column(at).path for at in range(len(parquet.schema))]
        known = parquet.metadata.row_group(group).column(leaves.index(self.column)).statistics
        if known is None or not known.has_min_max:
            return True
        low, high = arrival_numbers(pa.chunked_array([[known.min, known.max]])).to_pylist()
        return bool(low < self.after and self.first <= high)


def arrival_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert the column that says when rows arrived to int64, to compare it with an interval.

    Times become microseconds since 1970; offsets stay as they are.
    """
    return microseconds(values, 1 if pa.types.is_integer(values.type) else None)
