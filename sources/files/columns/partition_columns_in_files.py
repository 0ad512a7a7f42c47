"""Partition columns that files contain as well: they must equal the folder's value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from sources.common.conversion import short_repr
from sources.common.schema import parse_schema, type_name
from sources.errors import InputError
from sources.formats.base import Format
from sources.formats.file_regions import Region
from sources.formats.lines import OnBad, refuse
from sources.formats.parquet.file import parquet_file
from sources.formats.parquet.footer import unreadable
from sources.formats.parquet.footers import Footers
from sources.formats.row_check import RowCheck
from sources.formats.wrapping_reader import WrappedFormat
from sources.storage.folder_partitions import partition_of, typed_value, values_of
from sources.storage.stores import Stores

_THREADS = 16


class PartitionedFiles(WrappedFormat):
    """Wrapper of a format's reader for files whose folders are named ``column=value``.

    Implements :class:`sources.formats.base.Format`. It adds no values: the columns of folders are
    left out of what a file declares, and added elsewhere. A file may contain such a column, too, if
    each row has the folder's value; :meth:`read` raises InputError for another one.

    Args:
        form: Reader of the format.
        partitions: Partition columns and their Spark SQL types.

    Raises:
        InputError: The type of a partition column is not supported.
    """

    def __init__(self, form: Format, partitions: Mapping[str, str]) -> None:
        super().__init__(form)
        self._partitions = parse_schema(partitions)

    def columns(self, file: pa.NativeFile) -> pa.Schema | None:
        """Return the columns that a file declares, without partition columns.

        None if the format declares no columns, such as JSON.

        Raises:
            InputError: Spark has no type for a column.
            pyarrow.ArrowException: The file is damaged.
        """
        own = self._form.columns(file)
        return None if own is None else _without(own, self._partitions.names)

    def read(
        self,
        file: pa.NativeFile,
        region: Region,
        columns: pa.Schema,
        bad: OnBad = refuse,
        check: RowCheck | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a byte region; compare their partition columns with the folder's name.

        Yields:
            Batches with exactly ``columns``, in the order of the file.

        Raises:
            InputError: A row has another value than the folder.
            pyarrow.ArrowException: The file is damaged, or a value does not fit its column.
        """
        own = self._form.columns(file)
        held = (
            [] if own is None else [own.field(n) for n in self._partitions.names if n in own.names]
        )
        for rows in self._form.read(file, region, pa.schema([*columns, *held]), bad, check):
            for each in held:
                _require_equal(region.path, self._partitions.field(each.name), rows[each.name])
            yield rows.select(columns.names) if held else rows


def _without(columns: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([each for each in columns if each.name not in names])


def without_partitions(
    footers: Footers, paths: Sequence[str], partitions: pa.Schema, stores: Stores
) -> Footers:
    """Return footers of Parquet files without partition columns, after comparing their values.

    In files that contain partition columns, all values of these are read and compared with the
    folder's name.

    Args:
        footers: The footers.
        paths: The files, in the same order.
        partitions: The partition columns.
        stores: Storages that the files may be in.

    Raises:
        InputError: A file holds another value than its folder's name; or it can't be read.
        UnavailableError: The storage does not answer.
    """
    names = partitions.names
    held = [[name for name in names if name in schema.names] for _, schema in footers.schemas]
    files = {path: held[of] for path, of in zip(paths, footers.schema_of, strict=True) if held[of]}

    def check(path: str) -> None:
        try:
            with stores.of(path).open(path) as stream, parquet_file(stream) as file:
                table = file.read(columns=files[path])
        except (OSError, pa.ArrowException) as error:
            raise unreadable(path, error) from None
        for name in files[path]:
            for values in table[name].chunks:
                _require_equal(path, partitions.field(name), values)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(check, files))
    schemas = [(path, _without(schema, names)) for path, schema in footers.schemas]
    return footers._replace(schemas=schemas)


def _require_equal(path: str, column: pa.Field, values: pa.Array) -> None:
    folder = path.rpartition("/")[0]
    text = values_of(partition_of(folder, [column.name]))[column.name]
    wanted = typed_value(text, column.type)
    try:
        found = values.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Values that are no values of the declared type are others than the folder's.
        found = pa.nulls(len(values), column.type)
    is_same = values.is_null() if text is None else pc.fill_null(pc.equal(found, wanted), False)
    first = pc.index(is_same, pa.scalar(False)).as_py()
    if first < 0:
        return
    message = (
        f"{path}: column `{column.name}` is {short_repr(values[first].as_py())} in a row of the "
        f"file, and {short_repr(text)} by its folder, read as {type_name(column.type)}."
    )
    hint = (
        f"Remove `{column.name}` from `partitions`, so that the file's own column is read; or move "
        "the file to the folder of its value; or, if the two mean the same, declare the column's "
        "type under `partitions`. Then plan again (`hybrid plan P`)."
    )
    raise InputError(message, hint, file=path, column=column.name, value=str(values[first]))
