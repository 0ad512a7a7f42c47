"""Reader of ORC files, by Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from sources.common.schema import normalize_schema
from sources.errors import InputError
from sources.formats.arrow_columns import batch_in_columns, leaf_values
from sources.formats.file_regions import Region
from sources.formats.lines import OnBad, refuse
from sources.formats.row_check import RowCheck

_NO_NANOS = "out of range for nanosecond resolution"
# 1582-10-15, in days since 1970.
_FIRST_DAY = -141_427
_JULIAN = (
    "it has a date before 1582-10-15, and ORC's writers count such days by two calendars: which "
    "one is meant is not known."
)
_WAY_OUT = (
    "Write the files as Parquet, of which all times are read, or leave the column out: declare a "
    "`schema` without it."
)


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
        """Yield all rows of an ORC file, a batch with exactly ``columns`` for each stripe.

        Timestamps of nanoseconds are cut off to microseconds. Region, handler of bad rows and check
        are ignored.

        Raises:
            InputError: A time is before 1677 or after 2262, or a date before 1582-10-15.
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
            found = batch_in_columns(batch, columns)
            if any(_is_julian(leaf) for column in found.columns for leaf in leaf_values(column)):
                raise InputError(_JULIAN, _WAY_OUT)
            yield found


def _far_time(error: pa.ArrowException) -> InputError:
    message = (
        "it has a time before 1677 or after 2262, which Arrow's reader of ORC has no value for "
        f"({str(error).strip().removesuffix('.')})."
    )
    return InputError(message, _WAY_OUT)


def _is_julian(values: pa.Array) -> bool:
    """Return whether dates of a column are before the first one of the Gregorian calendar."""
    if not pa.types.is_date32(values.type):
        return False
    first = pc.min(values.cast(pa.int32())).as_py()
    return first is not None and first < _FIRST_DAY
