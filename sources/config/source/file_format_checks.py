"""Fields of a file source that its format lacks or does not have: all are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sources.config.source.file_options import OffsetColumns, TimeRange
from sources.formats.csv_options import CsvOptions
from sources.formats.map_keys import require_text_keys

if TYPE_CHECKING:
    from sources.config.source.file_source import FileSource

_DELTA_PARTS = 2  # of a table's name


def check_place(source: FileSource) -> None:
    """Refuse a file source with none or both of ``path`` and ``table``, or with an unfit ``table``.

    A table by its name needs a format of tables, and as many parts of the name as that has.

    Raises:
        ValueError: Says what to declare instead.
    """
    if (source.table is None) == (source.path is None):
        message = (
            "either `path` or `table` is needed. Declare the files' glob, or the table's "
            "folder or metadata file, as `path`; or its name in the catalog as `table`."
        )
        raise ValueError(message)
    if source.table is None:
        return
    if not source.is_table:
        message = (
            f"`table` has no meaning with `format: {source.format}`; only Delta and Iceberg "
            "tables are read by their names. Declare `format: delta` or `iceberg`, or `path` "
            "instead of `table`."
        )
        raise ValueError(message)
    parts = source.table.count(".") + 1
    if (parts != _DELTA_PARTS) if source.format == "delta" else (parts <= _DELTA_PARTS):
        wanted = "schema.table" if source.format == "delta" else "catalog.namespace.table"
        message = (
            f"`table: {source.table}` has {parts} parts; with `format: {source.format}` it is "
            f"`{wanted}`. Correct the name, or declare the table's place as `path` instead."
        )
        raise ValueError(message)


def check_format(source: FileSource) -> None:
    """Refuse fields of a file source that its format does not have, or that it lacks.

    Raises:
        ValueError: Says what to declare instead.
    """
    if source.format != "csv" and source.csv != CsvOptions():
        message = (
            f"`csv` has no meaning with `format: {source.format}`. Remove it, or declare "
            "`format: csv`."
        )
        raise ValueError(message)
    if source.format in ("json", "csv") and not source.columns:
        message = (
            f"`schema` is needed: {source.format} files do not carry their column types. Declare "
            "each column and its Spark SQL type, such as `schema: {id: bigint, at: timestamp}`."
        )
        raise ValueError(message)
    if source.format == "json":
        require_text_keys(source.columns or {})
    if source.format == "text" and source.columns:
        message = "With `format: text` the only column is `value`. Remove `schema`."
        raise ValueError(message)
    if source.is_table and len(source.patterns) > 1:
        message = (
            f"`path` names {len(source.patterns)} tables; a source reads one. Declare a source "
            "for each table."
        )
        raise ValueError(message)
    if source.is_table and (source.partitions or source.offsets == "names" or source.converge):
        message = (
            "`partitions`, `offsets: names` and `converge` have no meaning with "
            f"`format: {source.format}`: the table knows its partitions, its file names carry no "
            "offsets, and it is read at one version. Remove those of them that are declared."
        )
        raise ValueError(message)
    if not source.is_table and source.version is not None:
        message = (
            f"`version` has no meaning with `format: {source.format}`; only a Delta table has "
            "versions, and an Iceberg table snapshots. Remove `version`, or declare "
            "`format: delta` or `iceberg`."
        )
        raise ValueError(message)
    if doubled := set(source.partitions) & set(source.columns or {}):
        message = (
            f"column `{min(doubled)}` is in `schema` and in `partitions`. Keep it in "
            "`partitions` if its values are only in folder names, else in `schema`."
        )
        raise ValueError(message)


def check_offsets(source: FileSource) -> None:
    """Refuse ``offsets`` of a file source whose files don't show which of them are read.

    Raises:
        ValueError: Says what to declare instead.
    """
    if source.format == "iceberg" and source.offsets is not None:
        message = (
            "`offsets` has no meaning with `format: iceberg`: columns are found by field id "
            "in its files. Remove `offsets`; the topic's start is found by event time."
        )
        raise ValueError(message)
    if not source.is_parquet and isinstance(source.offsets, OffsetColumns):
        message = (
            "`offsets` by columns needs `format: parquet` or `delta`; with "
            f"`format: {source.format}` every byte would be read twice. Use `offsets: names` if "
            "the file names contain offsets, else remove `offsets`."
        )
        raise ValueError(message)
    if source.offsets is not None and source.time_range != TimeRange():
        message = (
            "`offsets` can't be combined with `time_range`: only some rows of a file are read, "
            "so the files do not show which offsets were read. Remove `offsets`, or remove "
            "`time_range`."
        )
        raise ValueError(message)
