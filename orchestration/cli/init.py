"""A starter pipeline over existing files: declaration, transform and audit query."""

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

# By the suffix of a file's name, without `.gz` and the like.
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json",
            ".csv": "csv"}  # fmt: skip
_PACKED = {".gz", ".zst"}
_READERS = {
    "parquet": "read_parquet(?)",
    "json": "read_json(?, format = 'newline_delimited')",
    "csv": "read_csv(?)",
}
# Spark SQL types by DuckDB's names.
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
# All fields: docs/pipeline.md, or `hybrid reference`.
name: {name}

# Read in this order. All sources but the last must have an end.
sources:
  - type: files
    name: history
    path: {path}
    format: {format}
{schema}{topic}
# Column with the event time, and columns that identify a row; the same in all sources.
event_time: {event_time}
key: [{key}]
# History is complete through its last event time minus this.
allowed_lateness: 1 hour

# The function `rows` in {name}_transform.py, next to this file.
transform: {name}_transform:rows

sink:
  path: {name}_out
  mode: append # `merge` if rows change
  key: [{key}]

# Folder of plan, positions and checkpoint.
state: {name}_state

# The same table, computed by DuckDB from the raw input; `hybrid audit` compares the two.
audit:
  sql: {name}_audit.sql
"""
_TOPIC = """\
  - type: kafka
    name: live
    topic: {topic}
    bootstrap_servers: {servers} # `local`: the broker of `hybrid broker`
    format: json # columns and types as in the source before
"""
_TRANSFORM = '''\
"""Transform of the rows, the same for files and topic."""

from pyspark.sql import DataFrame


def rows(rows: DataFrame) -> DataFrame:
    """Return all rows unchanged."""
    return rows
'''
_AUDIT = "SELECT * FROM input\n"


@dataclass(frozen=True)
class StarterOptions:
    """Options of a starter pipeline.

    Attributes:
        name: Name of the pipeline, and of its files.
        files: Glob of history's files, relative to the folder.
        topic: Topic that continues where the files end; None for files only.
        servers: Brokers of the topic, or `local`.
        event_time: Event-time column; None to detect it.
        key: Columns that identify a row; empty to detect them.
    """

    name: str
    files: str
    topic: str | None = None
    servers: str = "local"
    event_time: str | None = None
    key: Sequence[str] = ()


def start(folder: Path, options: StarterOptions) -> tuple[LoadedPipeline, list[Path]]:
    """Write a starter pipeline into a folder: its YAML file, its transform and its audit query.

    Format and columns are detected in the first of history's files. Either all three files are
    written, or none.

    Args:
        folder: Folder that exists, to write to.
        options: Name, files, topic and columns.

    Returns:
        The pipeline, and the paths of the three files.

    Raises:
        InputError: The name is not valid, no local file matches, the first file can't be read, the
            event time or the key can't be detected or is no column, one of the files to be written
            exists, or the pipeline would not be valid.
    """
    check_name(options.name)
    first = _first_file(folder, options.files)
    form = _format_of(first)
    columns = _columns_of(first, form)
    event_time = options.event_time or _find_event_time(first, columns)
    key = list(options.key) or _find_key(first, columns)
    for name in (event_time, *key):
        if name not in columns:
            message = f"File {first} has no column `{name}`; its columns: {', '.join(columns)}."
            option = "--event-time" if name == event_time else "--key"
            hint = f"Name one of them with `{option}`."
            raise InputError(message, hint, file=str(first), column=name)
    kinds = "".join(f"      {name}: {kind}\n" for name, kind in columns.items())
    declaration = _DECLARATION.format(
        name=options.name,
        path=options.files,
        format=form,
        schema="" if form == "parquet" else f"    schema:\n{kinds}",
        topic=_TOPIC.format(topic=options.topic, servers=options.servers) if options.topic else "",
        event_time=event_time,
        key=", ".join(key),
    )
    written = {
        folder / f"{options.name}.yaml": declaration,
        folder / f"{options.name}_transform.py": _TRANSFORM,
        folder / f"{options.name}_audit.sql": _AUDIT,
    }
    if there := [path for path in written if path.exists()]:
        message = f"File {there[0]} exists already; nothing was written."
        hint = "Choose another name for the pipeline, or move the file away."
        raise InputError(message, hint, file=str(there[0]))
    for path, text in written.items():
        path.write_text(text)
    try:
        return load_pipeline(folder / f"{options.name}.yaml"), list(written)
    except InputError:
        for path in written:
            path.unlink()
        raise


def _first_file(folder: Path, pattern: str) -> Path:
    if "://" in pattern:
        message = f"`--files {pattern}` names a store; columns are detected in local files only."
        hint = (
            "Copy one of the files to this machine and name the copy with `--files`; afterwards "
            f"set `path: {pattern}` in the pipeline's file."
        )
        raise InputError(message, hint, file=pattern)
    found = find_files("history", [pattern], folder.absolute(), Stores(S3Settings()))
    return Path(found["path"][0].as_py())


def _format_of(path: Path) -> str:
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


def _columns_of(path: Path, form: str) -> dict[str, str]:
    """Return names and Spark SQL types of the columns, as DuckDB detects them."""
    try:
        with duckdb.connect() as connection:
            query = f"DESCRIBE SELECT * FROM {_READERS[form]}"
            found = connection.execute(query, [str(path)]).fetchall()
    except duckdb.Error as error:
        message = f"File {path} can't be read as {form}, the format of its name: {error}"
        hint = (
            "Rename the file if it has another format; restore or remove it if it is damaged. Then "
            "run `hybrid init` again."
        )
        raise InputError(message, hint, file=str(path)) from None
    return {name: _TYPES.get(kind, "string") for name, kind, *_ in found}


def _find_event_time(path: Path, columns: Mapping[str, str]) -> str:
    times = [name for name, kind in columns.items() if kind == "timestamp"]
    if len(times) == 1:
        return times[0]
    number = f"{len(times)} columns" if times else "no column"
    message = (
        f"The event time can't be detected: {number} of file {path} have the type timestamp, and "
        "it has to be one."
    )
    choice = f"one of {', '.join(times or columns)}"
    raise InputError(message, f"Name the column with `--event-time`: {choice}.", file=str(path))


def _find_key(path: Path, columns: Mapping[str, str]) -> list[str]:
    if "id" in columns:
        return ["id"]
    message = f"The key can't be detected: file {path} has no column `id`."
    hint = f"Name each column that identifies a row with `--key`: of {', '.join(columns)}."
    raise InputError(message, hint, file=str(path))
