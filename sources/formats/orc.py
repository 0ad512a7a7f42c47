"""ORC files, read by Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import orc

from sources.common.schema import normalize_schema
from sources.errors import InputError
from sources.formats.arrow_columns import batch_in_columns
from sources.formats.lines import OnBad, refuse
from sources.formats.regions import Region
from sources.formats.row_check import RowCheck

_NO_NANOS = "out of range for nanosecond resolution"


class Orc:
    """Reader of ORC files, each as a whole.

    Implements :class:`sources.formats.base.Format`. The columns are those of the file's footer.
    """

    title = "ORC"
    splits = False
    checks = False

    def columns(self, file: pa.NativeFile) -> pa.Schema:
        """Return the columns of an ORC file's footer, in the types that Spark has.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """
        return normalize_schema(orc.ORCFile(file).schema)

    def rows(self, file: pa.NativeFile) -> int:
        """Return the number of rows that an ORC file's footer contains.

        Raises:
            pyarrow.ArrowException: The file is damaged.
        """
        rows: int = orc.ORCFile(file).nrows
        return rows

    def read(
        self,
        file: pa.NativeFile,
        _: Region,
        columns: pa.Schema,
        __: OnBad = refuse,
        ___: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read a whole ORC file; its timestamps of nanoseconds are cut off to microseconds.

        Yields:
            A batch with exactly ``columns`` for each stripe of the file.

        Raises:
            InputError: A time is before 1677 or after 2262.
            pyarrow.ArrowException: The file is damaged, or a column can't be cast to its type.
        """
        orc_file = orc.ORCFile(file)
        for stripe in range(orc_file.nstripes):
            try:
                batch = orc_file.read_stripe(stripe, columns=columns.names)
            except pa.ArrowException as error:
                if _NO_NANOS not in str(error):
                    raise
                raise _far_time(error) from None
            yield batch_in_columns(batch, columns)


def _far_time(error: pa.ArrowException) -> InputError:
    message = (
        "it has a time before 1677 or after 2262, which Arrow's reader of ORC has no value for "
        f"({str(error).strip().removesuffix('.')})."
    )
    hint = (
        "Write the files as Parquet, of which all times are read, or leave the column out: declare "
        "a `schema` without it."
    )
    return InputError(message, hint)
