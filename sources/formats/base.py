"""Interface of the formats of history files: what a reader of one of them implements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from sources.formats.file_regions import Region
from sources.formats.lines import OnBad, refuse
from sources.formats.row_check import RowCheck

TEXT_COLUMNS = pa.schema([("value", pa.string())])
"""Columns of a text file, which has one row per line."""


class Format(Protocol):
    """Reader of files of one format, region by region, into Arrow batches.

    Made on the driver, and pickled to tasks. The plan asks for columns and rows of files, and reads
    some rows of formats without statistics; tasks read all. A region is a byte range of a file. A
    row belongs to the region in which it begins, so that several Spark tasks can read one large
    file.

    Attributes:
        title: Name of the format, for messages.
        splits: Whether large files can be read in regions; if not, each is read as a whole.
        checks: Whether :meth:`read` applies its argument ``check`` itself, as it knows the bytes of
            each row; else the caller applies it.
    """

    title: str
    splits: bool
    checks: bool

    def columns(self, file: pa.NativeFile) -> pa.Schema | None:
        """Return the columns that a file's metadata declares, in the types that Spark has.

        None if files of this format do not declare columns.

        Args:
            file: The open file, decompressed.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """

    def rows(self, file: pa.NativeFile) -> int | None:
        """Return the number of rows by a file's metadata, without reading rows.

        None if files of this format do not record it.

        Args:
            file: The open file, decompressed.

        Raises:
            pyarrow.ArrowException: The file is damaged.
        """

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that begin in a region of a file, in Arrow batches in the file's order.

        Nothing if no row begins in the region.

        Args:
            file: The file, decompressed; its position does not matter.
            region: Byte range of the file; the whole file if the format does not split files.
            columns: Exactly the columns to return.
            bad: Called with each bad row. Formats without a row per line do not call it.
            check: Check that rows have to pass, if the format ``checks``; others ignore it.

        Raises:
            InputError: The file lacks a column (CSV with a header), or ``bad`` refuses a row.
            pyarrow.ArrowException: The file is damaged, or, in a format that does not call ``bad``,
                a value does not fit its column.
            OSError: The file can't be read.
        """
