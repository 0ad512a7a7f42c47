"""Old dates and times of files that Spark has written by the Julian calendar.

Spark marks such files, and only Spark reads them as the days that were meant:
https://spark.apache.org/docs/latest/sql-data-sources-parquet.html (``datetimeRebaseModeInRead``).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.schema import TIMESTAMP
from sources.errors import InputError
from sources.formats.arrow_columns import leaf_values

_SPARK = b"org.apache.spark.version"
_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
# Day or microsecond before which both calendars may differ; for times in zones, until these had
# rules. As numbers: a scalar of Arrow's would import pandas.
_FIRST = {
    pa.date32(): (pa.int32(), -141_427, "1582-10-15"),
    TIMESTAMP: (pa.int64(), -2_208_988_800_000_000, "1900-01-01"),
}


def may_be_julian(marks: Mapping[bytes, bytes]) -> bool:
    """Return whether old dates of a file are of the Julian calendar, by its key-value metadata.

    Those of Spark 2, which knew no other calendar, are; and those that a later one was told to
    write so, which it marks. False for a file without such metadata.
    """
    return any(mark in marks for mark in _MARKS) or marks.get(_SPARK, b"3") < b"3"


def gregorian(rows: pa.RecordBatch, marks: Mapping[bytes, bytes], form: str) -> pa.RecordBatch:
    """Return rows of a file; refuse old dates and times, which would be taken for other days.

    Values within lists, structs and maps count, but keys of maps do not.

    Args:
        rows: The rows.
        marks: Key-value metadata of the file.
        form: Format as in the names of Spark's settings: ``avro`` or ``parquet``.

    Raises:
        InputError: There is one, and the file :func:`may_be_julian`; names its column.
    """
    named = zip(rows.schema.names, rows.columns, strict=True) if may_be_julian(marks) else ()
    for name, leaf in ((name, leaf) for name, column in named for leaf in leaf_values(column)):
        kind, first, day = _FIRST.get(leaf.type, (None, 0, ""))
        if kind is not None and pc.any(pc.less(leaf.view(kind), first)).as_py():
            before = f"Column `{name}` has a value before {day}"
            message = f"{before}, which Spark wrote by the Julian calendar, as the file says."
            setting = f"`spark.sql.{form}.datetimeRebaseModeInWrite=CORRECTED`"
            hint = f"Let Spark write it again with {setting}, or declare a `schema` without it."
            raise InputError(message, hint, column=name)
    return rows
