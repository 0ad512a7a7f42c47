"""A pipeline to start from: declaration, transform and audit over files that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from sources.common.fields import check_name
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import InputError
from sources.storage.listing import find_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

# By the end of a file's name, `.gz` and the like taken off.
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json",
            ".csv": "csv"}  # fmt: skip
_PACKED = {".gz", ".zst"}
_READERS = {
    "parquet": "read_parquet(?)",
    "json": "read_json(?, format = 'newline_delimited')",
    "csv": "read_csv(?)",
}
# DuckDB's name of a type, and Spark's.
_TYPES = {
    "BOOLEAN": "boolean",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "UUID": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
_DECLARATION = """\
# Every field: docs/pipeline.md, or `hybrid reference`.
name: {name}

# Read in this order. All sources but the last must have an end.
sources:
  - type: files
    name: history
    path: {path}
    format: {format}
{schema}{topic}
# When a row happened, and what identifies it, in all sources alike.
event_time: {event_time}
key: [{key}]
# History is complete up to its end minus this.
allowed_lateness: 1 hour

# The function `rows` of {name}_transform.py, beside this file.
transform: {name}_transform:rows

sink:
  path: {name}_out
  mode: append # `merge` for rows that change
  key: [{key}]

# Plan, positions and checkpoint.
state: {name}_state

# The same table, computed by DuckDB from all raw input; `hybrid audit` compares the two.
audit:
  sql: {name}_audit.sql
"""
_TOPIC = """\
  - type: kafka
    name: live
    topic: {topic}
    bootstrap_servers: {servers} # `local`: the broker of `hybrid broker`
    format: json # columns and types are those of the source before
"""
_TRANSFORM = '''\
"""What becomes of the rows, of files and topic alike."""

from pyspark.sql import DataFrame


def rows(rows: DataFrame) -> DataFrame:
    """All rows as they are."""
    return rows
'''
_AUDIT = "SELECT * FROM input\n"


@dataclass(frozen=True)
class Wanted:
    """What people said of their pipeline.

    Attributes:
        name: Of the pipeline and its files.
        files: Glob of history's files, relative to the folder.
        topic: That goes on where the files end; None for files alone.
        servers: Where it is.
        event_time: The event-time column; None to find it.
        key: Columns that identify a row; empty to find them.
    """

    name: str
    files: str
    topic: str | None = None
    servers: str = "local"
    event_time: str | None = None
    key: Sequence[str] = ()


def start(folder: Path, wanted: Wanted) -> tuple[LoadedPipeline, list[Path]]:
    """Write a pipeline into a folder.

    Returns:
        The pipeline, and the files that were written.

    Raises:
        InputError: The name can't be one, there are no such files, they can't be read, a column
            has to be named, or one of the files to be written is there.
    """
    check_name(wanted.name)
    first = _first_file(folder, wanted.files)
    form = _format_of(first)
    columns = _columns_of(first, form)
    event_time = wanted.event_time or _find_event_time(first, columns)
    key = list(wanted.key) or _find_key(first, columns)
    for name in (event_time, *key):
        if name not in columns:
            message = f"{first} has no column `{name}`."
            raise InputError(message, f"It has {', '.join(columns)}.")
    kinds = "".join(f"      {name}: {kind}\n" for name, kind in columns.items())
    declaration = _DECLARATION.format(
        name=wanted.name,
        path=wanted.files,
        format=form,
        schema="" if form == "parquet" else f"    schema:\n{kinds}",
        topic=_TOPIC.format(topic=wanted.topic, servers=wanted.servers) if wanted.topic else "",
        event_time=event_time,
        key=", ".join(key),
    )
    written = {
        folder / f"{wanted.name}.yaml": declaration,
        folder / f"{wanted.name}_transform.py": _TRANSFORM,
        folder / f"{wanted.name}_audit.sql": _AUDIT,
    }
    if there := [path for path in written if path.exists()]:
        message = f"{there[0]} is there already."
        raise InputError(message, "Take another name, or remove it.")
    for path, text in written.items():
        path.write_text(text)
    try:
        return load_pipeline(folder / f"{wanted.name}.yaml"), list(written)
    except InputError:
        for path in written:
            path.unlink()
        raise


def _first_file(folder: Path, pattern: str) -> Path:
    if "://" in pattern:
        message = f"`{pattern}` is not on this machine."
        hint = "Start from a few of the files, then write their place into the pipeline's `path`."
        raise InputError(message, hint)
    found = find_files("history", [pattern], folder.absolute(), Stores(S3Settings()))
    return Path(found["path"][0].as_py())


def _format_of(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix not in _PACKED]
    if not suffixes or suffixes[-1] not in _FORMATS:
        message = f"What {path.name} holds can't be told by its name."
        hint = f"A start can be made from {', '.join(_FORMATS)}; docs/sources.md has all formats."
        raise InputError(message, hint)
    return _FORMATS[suffixes[-1]]


def _columns_of(path: Path, form: str) -> dict[str, str]:
    """Names and Spark's types of the columns that a look at the file suggests."""
    try:
        with duckdb.connect() as connection:
            query = f"DESCRIBE SELECT * FROM {_READERS[form]}"
            found = connection.execute(query, [str(path)]).fetchall()
    except duckdb.Error as error:
        message = f"{path} can't be read as {form}: {error}"
        raise InputError(message) from None
    return {name: _TYPES.get(kind, "string") for name, kind, *_ in found}


def _find_event_time(path: Path, columns: Mapping[str, str]) -> str:
    times = [name for name, kind in columns.items() if kind == "timestamp"]
    if len(times) == 1:
        return times[0]
    message = f"Which column of {path} tells when a row happened?"
    choice = f"one of {', '.join(times)}" if times else "one that holds timestamps; none looks so"
    raise InputError(message, f"Name it by --event-time: {choice}.")


def _find_key(path: Path, columns: Mapping[str, str]) -> list[str]:
    if "id" in columns:
        return ["id"]
    message = f"Which columns of {path} identify a row?"
    raise InputError(message, f"Name each by --key: it has {', '.join(columns)}.")
