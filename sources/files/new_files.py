"""Files that arrived since a listing, told by their paths: never by times, which may be old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sources.common.schema import differences, parse_schema
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.files.splits import FileListing, list_source


def paths_of(tables: Iterable[pa.Table]) -> pa.ChunkedArray:
    """The paths of all files of these tables of splits."""
    chunks = [chunk for splits in tables for chunk in splits["path"].chunks]
    return pa.chunked_array(chunks, pa.string())


def list_arrived(
    loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray, columns: Mapping[str, str]
) -> FileListing | None:
    """The splits of a source's files that are not known yet.

    Args:
        loaded: The pipeline.
        source: One of its sources.
        known: Paths that were found before.
        columns: Column names and Spark SQL types that were planned.

    Returns:
        None if no file is new.

    Raises:
        InputError: A new file can't be read, or has other columns.
    """
    listing = list_source(loaded, source, known)
    if listing is None:
        return None
    if rows := differences(parse_schema(columns), listing.columns):
        name, planned, found = rows[0]
        message = (
            f"Source `{source.name}`: column `{name}` of the files that arrived is {found}, "
            f"planned was {planned}."
        )
        raise InputError(message, "Repair or remove them, then run again.")
    return listing
