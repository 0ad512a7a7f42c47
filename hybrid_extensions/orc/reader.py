"""Reader of ORC files: dates before 1582 and times of another zone than UTC are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hybrid_extensions.orc.writer_zone import writer_zone
from sources.common.schema import leaves, normalize_schema
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
# What Spark writes into a file: its version, and of a column the type that it has there.
_SPARK, _SPARK_TYPE, _NTZ = (
    b"org.apache.spark.version",
    b"spark.sql.catalyst.type",
    b"timestamp_ntz",
)
_UTC = ("UTC", "GMT", "UCT", "Zulu", "Universal", "Greenwich", "Z")
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
        return normalize_schema(
            pa.schema([_as_in_spark(each) for each in orc.ORCFile(file).schema])
        )

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
            InputError: A time is before 1677 or after 2262, or a date before 1582-10-15; or Spark
                has written times in another zone than UTC.
            pyarrow.ArrowException: The file is damaged, or a column can't be cast to its type.
        """
        orc_file = orc.ORCFile(file)
        _require_utc(file, orc_file, columns)
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


def _as_in_spark(field: pa.Field) -> pa.Field:
    """Return a column of ORC; a number that Spark has written for a time without a zone is one."""
    is_time = (field.metadata or {}).get(_SPARK_TYPE) == _NTZ and field.type == pa.int64()
    return field.with_type(pa.timestamp("us")) if is_time else field


def _require_utc(file: pa.NativeFile, orc_file: orc.ORCFile, columns: pa.Schema) -> None:
    """Refuse times that Spark has written in another zone than UTC: they would be hours off.

    Those of other writers are what a clock has shown, which is read as UTC.

    Raises:
        InputError: There is a column of such times; names the zone.
        OSError: The file can't be read.
    """
    if _SPARK not in (orc_file.schema.metadata or {}):
        return
    times = [
        field.name
        for field in orc_file.schema
        if field.name in columns.names
        and any(pa.types.is_timestamp(leaf) and leaf.tz is None for leaf in leaves(field.type))
    ]
    zone = writer_zone(file, orc_file) if times else None
    if zone is not None and zone.removeprefix("Etc/") not in _UTC:
        message = (
            f"Column `{times[0]}` has times that Spark wrote in the time zone {zone}. ORC keeps "
            "what a clock there shows, and it would be read as UTC."
        )
        hint = (
            "Write the files again as Parquet, or by Spark whose own time zone is UTC "
            "(`-Duser.timezone=UTC`), or leave the column out: declare a `schema` without it."
        )
        raise InputError(message, hint, column=times[0], value=zone)


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
