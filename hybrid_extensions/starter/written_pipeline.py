"""Files of a starter pipeline over history: declaration (names quoted), transform and query."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hybrid_extensions.starter.detection import Detected, detect
from hybrid_extensions.starter.file_queries import has_rows
from hybrid_extensions.starter.topic_warnings import topic_warnings
from sources.common.fields import check_name
from sources.common.sql.sql_names import in_backticks
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.errors import HybridError, InputError
from sources.storage.listing import find_files, match_files
from sources.storage.settings import S3Settings
from sources.storage.stores import Stores

_DECLARATION = """\
# All fields: docs/pipeline.md, or `hybrid reference`.
name: {name}

# Read in this order. All sources but the last must have an end.
sources:
  - type: files
    name: history
    path: {path}
    format: {format}
{folders}{schema}{select}{topic}
# Column with the event time, and columns that identify a row; the same in all sources.
event_time: {event_time}
key: [{key}]
# History is complete through its last event time minus this.
allowed_lateness: 1 hour

# The function `rows` in {name}_transform.py, next to this file.
transform: {name}_transform:rows

sink:
  path: {home}{name}_out
  mode: append # `merge` if rows change
  key: [{key}]

# Folder of plan, positions and checkpoint.
state: {home}{name}_state

# The same table, computed by DuckDB from the raw input; `hybrid audit` compares the two.
audit:
  sql: {name}_audit.sql
"""
_TOPIC = """\
  - type: kafka
    name: live
    topic: {topic}
    bootstrap_servers: {servers} # `local`: the broker of `hybrid broker`
    format: json{inherited}
{schema}{select}"""
_INHERITED = " # columns and types as in the source before"
_FOLDERS = "    # Not read: {names}, of the folders; `partitions` would make columns of them.\n"
_TRANSFORM = '''\
"""Transform of the rows, the same for files and topic."""

from pyspark.sql import DataFrame


def rows(rows: DataFrame) -> DataFrame:
    """Return all rows unchanged."""
    return rows
'''
_AUDIT = "SELECT * FROM input\n"
_USUAL = re.compile(r"[A-Za-z_]\w*(\(\w+\))?", re.ASCII)
_MOST_FILES = 100
EXAMPLE = Detected(
    format="parquet", columns={}, folders=[], event_time="at", instant=None, key=["id"]
)
"""Format and columns of a starter pipeline whose files are not there yet, for people to edit."""


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
        home: Folder of the table and of the state, relative to the pipeline's folder.
    """

    name: str
    files: str
    topic: str | None = None
    servers: str = "local"
    event_time: str | None = None
    key: Sequence[str] = ()
    home: Path = Path()


def start(folder: Path, options: StarterOptions) -> tuple[LoadedPipeline, list[Path], list[str]]:
    """Write a starter pipeline into a folder: its YAML file, its transform and its audit query.

    Format and columns are detected in the first of history's files that has a row. Either all three
    files are written, or none.

    Args:
        folder: Folder that exists, to write to.
        options: Name, files, topic and columns.

    Returns:
        The pipeline, the paths of the three files, and what people should check, in sentences.

    Raises:
        InputError: The name is not valid, no local file matches, the first file can't be read, the
            event time or the key can't be detected or is no column, one of the files to be written
            exists, or the pipeline would not be valid.
    """
    first, *others = some_files(folder, options.files)
    found = detect(first, options.event_time, options.key, others)
    notes = [found.why_key] if found.why_key else []
    if found.index:
        left_out = ", ".join(f"`{name}`" for name in found.index)
        # In a CSV file it has no name: DuckDB gives it one.
        left_out = "the column without a name" if found.format == "csv" else left_out
        notes.append(f"Left out: {left_out}, the numbers of the rows that pandas has written.")
    if found.unnamed:
        left_out = ", ".join(f"`{name}`" for name in found.unnamed)
        where = "in the header" if found.format == "csv" else "but for upper and lower case"
        notes.append(
            f"Left out: {left_out}, which have no name of their own {where}. To read them, "
            "give each column another name in the files, then run `hybrid init` again."
        )
    notes += [
        f"Column `{name}` is text, as runs do not read values such as '{value}' as what they look "
        "like; `select` can convert them (docs/sources.md)."
        for name, value in found.texts.items()
    ]
    notes += [
        f"Column `{name}` has no value in {first.name}, so its type, {found.columns[name]}, is a "
        "guess. Correct it under `schema` if other files or records have values of another type."
        for name in found.guessed
    ]
    what = "objects or lists and others, which no run reads"
    if found.format == "parquet":
        what = "of a type that runs can't read"
    notes += [f"Left out: `{name}`, whose values are {what}." for name in found.unread]
    notes += [f"Column `{name}` is {made}, by `select`." for name, made in found.fields.items()]
    loaded, written = write_starter(folder, options, found)
    return loaded, written, [*notes, *topic_warnings(loaded)]


def write_starter(
    folder: Path, options: StarterOptions, found: Detected
) -> tuple[LoadedPipeline, list[Path]]:
    """Write the files of a starter pipeline whose format and columns are known.

    Either all three files are written, or none.

    Args:
        folder: Folder that exists, to write to.
        options: Name, files and topic.
        found: Format and columns of history; :data:`EXAMPLE` if they are left to people.

    Returns:
        The pipeline, and the paths of the three files.

    Raises:
        InputError: The name is not valid, one of the files to be written exists, or the pipeline
            would not be valid.
    """
    check_name(options.name)
    declaration = _declaration(options, found)
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
    except HybridError:
        for path in written:
            path.unlink()
        raise


def _declaration(options: StarterOptions, found: Detected) -> str:
    """Return the content of the pipeline's file."""
    kinds = "".join(f"      {_plain(name)}: {kind}\n" for name, kind in found.columns.items())
    schema, select = f"    schema:\n{kinds}", ""
    # Of CSV only declared columns are read.
    is_made = found.instant is not None or bool(found.fields)
    if is_made or (found.index and found.format == "parquet"):
        columns = {name: _column(name) for name in found.columns}
        if found.instant is not None:
            columns[found.event_time] = found.instant.format(_column(found.event_time))
        columns |= found.fields
        lines = "".join(f"      {_plain(name)}: {_plain(made)}\n" for name, made in columns.items())
        select = f"    select:\n{lines}"
    # Records of the topic have no index of pandas.
    again = select if is_made else ""
    topic = _TOPIC.format(
        topic=_scalar(options.topic or ""),
        servers=_scalar(options.servers),
        inherited="" if again else _INHERITED,
        schema=schema if again else "",
        select=again,
    )
    # Parquet has the types; a declared schema leaves columns out, or lets people correct one.
    is_declared = found.format != "parquet" or bool(found.unread or found.guessed)
    return _DECLARATION.format(
        name=options.name,
        home="" if options.home == Path() else f"{options.home}/",
        path=_scalar(options.files),
        format=found.format,
        folders=_FOLDERS.format(names=", ".join(found.folders)) if found.folders else "",
        schema=f"{_csv(found)}{schema}" if is_declared else "",
        select=select,
        topic=topic if options.topic else "",
        event_time=_plain(found.event_time),
        key=", ".join(map(_plain, found.key)),
    )


def _csv(found: Detected) -> str:
    """Return the line with the dialect of CSV; nothing if it is the usual one."""
    return f"    csv: {json.dumps(found.csv)}\n" if found.csv else ""


def _plain(text: str) -> str:
    """Return a name or a call as YAML has it: in quotes, if it is no usual one."""
    return _scalar(text) if _USUAL.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _scalar(text: str) -> str:
    """Return a text as YAML has it: in quotes, if it would be read as something else."""
    try:
        is_text = yaml.safe_load(text) == text
    except yaml.YAMLError:
        # Such as `*.csv`, which is an alias there.
        is_text = False
    return text if is_text else json.dumps(text, ensure_ascii=False)


def _column(name: str) -> str:
    """Return a column in Spark SQL."""
    return name if _USUAL.fullmatch(name) else in_backticks(name)


def some_files(folder: Path, pattern: str) -> list[Path]:
    """Return the first of history's files by path that has a row, the middle one and the last one.

    Format and columns are detected in the first. If none of the first 100 has a row, it is the
    first of all.

    Args:
        folder: Folder that a relative pattern starts at.
        pattern: Glob of the files.

    Raises:
        InputError: The pattern names a store, or no file matches.
    """
    if "://" in pattern:
        message = f"`--files {pattern}` names a store; columns are detected in local files only."
        hint = (
            "Copy one of the files to this machine and name the copy with `--files`; afterwards "
            f"set `path: {pattern}` in the pipeline's file."
        )
        raise InputError(message, hint, file=pattern)
    place = ("history", [pattern], folder.absolute(), Stores(S3Settings()))
    if not match_files(*place).num_rows:
        message = f"`--files {pattern}`: no file matches."
        hint = (
            "Correct the pattern, and put it in quotes, so that the shell does not expand it. A "
            f"relative one starts from {folder.absolute()}; files and folders whose names begin "
            "with `_` or `.` are left out."
        )
        raise InputError(message, hint, file=pattern)
    found = [Path(each) for each in find_files(*place)["path"].to_pylist()]
    # Spark writes a file without rows for each empty partition.
    first = next((each for each in found[:_MOST_FILES] if has_rows(each)), found[0])
    more = {found[len(found) // 2], found[-1]} - {first}
    return [first, *sorted(more)]
