"""What a format of history's files has to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region


class Format(Protocol):
    """How files of one kind are read, in regions and in whole Arrow batches.

    Attributes:
        title: Its name, for people.
        splits: Whether large files can be read in regions.
    """

    title: str
    splits: bool

    def columns(self, file: pa.NativeFile) -> pa.Schema | None:
        """The columns that a file itself tells, as Spark holds them; None if it does not."""

    def rows(self, file: pa.NativeFile) -> int | None:
        """How many rows a file itself tells it has; None if it does not."""

    def read(
        self, file: pa.NativeFile, region: Region, columns: pa.Schema, bad: OnBad = refuse
    ) -> Iterator[pa.RecordBatch]:
        """The rows that begin in a region.

        Args:
            file: The file, uncompressed, open at any place.
            region: Which part of it.
            columns: Exactly the columns to return.
            bad: What is to be done about bad rows, where rows can be told apart by their lines.

        Raises:
            pyarrow.ArrowException: The file is damaged, or, where they can't, a value does not
                fit its column.
            OSError: It can't be read.
        """
