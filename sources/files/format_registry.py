"""Registry of file formats: their readers, by the names that declarations use."""

from __future__ import annotations

from sources.config.source.file_source import FileSource
from sources.extensions import contributions, none_adds
from sources.files.columns.drifted_files_reader import DriftedFiles
from sources.files.columns.partition_columns_in_files import PartitionedFiles
from sources.formats.base import Format
from sources.formats.parquet.rows import ParquetRows


def format_of(source: FileSource) -> Format:
    """Return the reader of a source's files, with partition columns and ``schema_drift`` applied.

    Args:
        source: Declaration of the source; not one of a table.

    Raises:
        InputError: No installed extension reads the format, or its library is not installed.
    """
    form = reader_of(source)
    if source.drift is not None:
        form = DriftedFiles(form, source.drift)
    return PartitionedFiles(form, source.partitions) if source.partitions else form


def reader_of(source: FileSource) -> Format:
    """Return the plain reader of a source's format, which reads each file by its own columns.

    Args:
        source: Declaration of the source; not one of a table.

    Raises:
        InputError: No installed extension reads the format, or its library is not installed.
    """
    known: dict[str, Format] = {"parquet": ParquetRows()}
    for added in contributions("file_formats"):
        known |= {name: make(source) for name, make in added.items() if name == source.format}
    if source.format not in known:
        does = f"reads files of `format: {source.format}`"
        raise none_adds(does, "write the files in another format", field="format")
    return known[source.format]
