"""Files that arrived since a listing, recognized by path: a new file may have an old time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sources.common.schema import differences, parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.errors import InputError
from sources.files.listing.source_listing import list_appended, list_source
from sources.files.listing.split_table import FileListing
from sources.files.tables.table_commits import Appended


def paths_of(tables: Iterable[pa.Table]) -> pa.ChunkedArray:
    """Return the paths in tables of splits; a file of several splits is in it several times.

    Empty without tables.

    Args:
        tables: Tables of schema :data:`sources.files.listing.split_table.SPLITS`.
    """
    chunks = [chunk for splits in tables for chunk in splits["path"].chunks]
    return pa.chunked_array(chunks, pa.string())


def require_readable_by_spark(source: str, parsed: str | None) -> None:
    """Refuse new files that Spark's Parquet reader can't read, if the plan reads with Spark.

    Args:
        source: Name of the source.
        parsed: Path of the first new file that Spark can't read; None passes.

    Raises:
        InputError: Names the file.
    """
    if parsed is None:
        return
    message = (
        f"Source `{source}`: {parsed}, which arrived after the plan was made, has a time of "
        "nanoseconds, a column without any value, of no type, a codec or an encoding that Spark "
        "does not have, or a colon in its name. Spark does not read such files, and by the plan it "
        "reads those of this source."
    )
    hint = (
        "Write the file again with times of microseconds, a type for each column, Snappy and plain "
        "or dictionary encoding, and a name without a colon; or begin a new generation, whose plan "
        "knows of it: `hybrid generation new P`."
    )
    raise InputError(message, hint, source=source, file=parsed)


def list_arrived(
    loaded: LoadedPipeline,
    source: FileSource,
    known: pa.ChunkedArray | Appended,
    read: Mapping[str, str],
    columns: Mapping[str, str],
    *,
    is_parsed: bool,
) -> FileListing | None:
    """List a source's folder again, and return the splits of files that are new.

    Args:
        loaded: The pipeline.
        source: One of its file sources.
        known: Paths of the files that are not new; of a table that is followed, what its commits
            append: these files are new.
        read: Planned columns of the files, partition columns included: names and Spark SQL types.
        columns: Planned output columns: names and Spark SQL types.
        is_parsed: Whether, by the plan, this project's tasks parse Parquet files instead of Spark.

    Returns:
        The splits of the new files; None if there is no new file.

    Raises:
        InputError: A new file can't be read, has other columns than planned, or can't be read by
            Spark where the plan has Spark read; or the storage refuses.
        UnavailableError: The storage does not answer.
        StateError: The files are a database snapshot that is not complete.
    """
    inside = {name: kind for name, kind in read.items() if name not in source.partitions}
    planned = parse_schema(inside)
    listing = (
        list_appended(loaded, source, known)
        if isinstance(known, Appended)
        else list_source(loaded, source, known, planned=planned)
    )
    if listing is None:
        return None
    if not is_parsed:
        require_readable_by_spark(source.name, listing.parsed)
    if rows := differences(parse_schema(columns), listing.columns):
        name, wanted, present = rows[0]
        message = (
            f"Source `{source.name}`: column `{name}` of the files that arrived is {present}, "
            f"in the plan it is {wanted}."
        ).replace("(missing)", "missing")
        file = str(listing.splits["path"][0])
        hint = (
            f"Rewrite the new files, such as {file}, with the planned columns, or move them out of "
            "the source's folder (their rows will then be missing from the table); then try again."
            if not isinstance(known, Appended)
            else "Begin a new generation, which reads the table with its columns of today: `hybrid "
            "generation new P`. To read the planned columns alone, declare them as `schema` first."
        )
        raise InputError(message, hint, source=source.name, file=file, column=name)
    return listing
