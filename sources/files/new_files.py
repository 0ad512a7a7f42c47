"""Files that arrived since a listing, recognized by path: a new file may have an old time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sources.common.schema import differences, parse_schema
from sources.config.file_source import FileSource
from sources.config.loader import LoadedPipeline
from sources.errors import InputError
from sources.files.split_table import FileListing
from sources.files.splits import list_source


def paths_of(tables: Iterable[pa.Table]) -> pa.ChunkedArray:
    """Return the paths of all files in some tables of splits."""
    chunks = [chunk for splits in tables for chunk in splits["path"].chunks]
    return pa.chunked_array(chunks, pa.string())


def list_arrived(
    loaded: LoadedPipeline, source: FileSource, known: pa.ChunkedArray, columns: Mapping[str, str]
) -> FileListing | None:
    """Return the splits of a source's new files.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        known: Paths of the files that are not new.
        columns: Planned column names and Spark SQL types.

    Returns:
        None if there is no new file.

    Raises:
        InputError: A new file can't be read, or has other columns than planned.
        UnavailableError: The storage does not answer.
    """
    listing = list_source(loaded, source, known)
    if listing is None:
        return None
    if rows := differences(parse_schema(columns), listing.columns):
        name, planned, present = rows[0]
        message = (
            f"Source `{source.name}`: column `{name}` of the files that arrived is {present}, "
            f"in the plan it is {planned}."
        )
        hint = "Repair or remove the files, then run again."
        raise InputError(message, hint, source=source.name, column=name)
    return listing
