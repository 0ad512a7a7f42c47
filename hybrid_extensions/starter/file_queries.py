"""Format of a file by its suffix, and queries over it by DuckDB, for ``hybrid init``."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from sources.errors import InputError

# By the suffix of a file's name, without `.gz` and the like.
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json",
            ".csv": "csv"}  # fmt: skip
_PACKED = {".gz", ".zst"}
_READERS = {
    "parquet": "read_parquet(?, hive_partitioning = {folders})",
    "json": "read_json(?, format = 'newline_delimited', hive_partitioning = {folders})",
    "csv": "read_csv(?, hive_partitioning = {folders})",
}
HEAD_BYTES = 1 << 16
_MOST_LINES = 3


def has_rows(path: Path) -> bool:
    """Return whether a file has a row; True if its format is not known or it can't be read."""
    try:
        return bool(run_query(path, format_of(path), "SELECT 1", rest="LIMIT 1").num_rows)
    except InputError:
        return True


def format_of(path: Path) -> str:
    """Return the format of a file by its name.

    Raises:
        InputError: The name tells none that is known.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix not in _PACKED]
    if not suffixes or suffixes[-1] not in _FORMATS:
        message = (
            f"The format of file {path.name} is not known by its name; `hybrid init` knows "
            f"{', '.join(_FORMATS)}, also with .gz or .zst."
        )
        hint = (
            "Rename the files if they have one of these formats; for another one write the "
            "pipeline's file by hand (docs/sources.md lists all formats)."
        )
        raise InputError(message, hint, file=str(path))
    return _FORMATS[suffixes[-1]]


def run_query(
    path: Path, form: str, select: str, *, folders: bool = False, rest: str = "", text: str = ""
) -> pa.Table:
    """Return the result of a query over the file.

    Args:
        path: The file.
        form: Its format.
        select: The query up to its FROM.
        folders: Whether names and values in folder names count as columns.
        rest: The query after its FROM.
        text: Name of a column of CSV that is read as text, whatever it looks like.

    Raises:
        InputError: The file can't be read in this format.
    """
    reader = _READERS[form].format(folders=str(folders).lower())
    if text and form == "csv":
        name = text.replace("'", "''")
        reader = f"{reader.removesuffix(')')}, types = {{'{name}': 'VARCHAR'}})"
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            query = f"{select} FROM {reader} {rest}"
            return connection.sql(query, params=[str(path)]).to_arrow_table()
    except duckdb.Error as error:
        reason, encoding = _reason(error), ""
        message = f"File {path} can't be read as {form}, the format of its name: {reason}"
        if form == "csv" and not _is_utf8(path):
            encoding = (
                "If it is text in another encoding, run `hybrid init` on a copy in UTF-8, and "
                "declare the encoding afterwards, such as `csv: {encoding: latin-1}`. "
            )
        hint = (
            f"{encoding}Correct a row that is named; rename the file if it has another format; "
            "restore or remove it if it is damaged. Then run `hybrid init` again."
        )
        raise InputError(message, hint, file=str(path)) from None


def _reason(error: duckdb.Error) -> str:
    """Return what DuckDB says is wrong, and in which row, without its options as ways out."""
    told, _, _ = str(error).partition("\nPossible ")
    said = [line.strip() for line in told.splitlines() if line.strip()]
    return "; ".join(said[:_MOST_LINES])


def _is_utf8(path: Path) -> bool:
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        # The error already says what is wrong with the file.
        return True
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The last character may be cut.
        return error.start > len(head) - len("\U0010ffff".encode())
    return True
