"""Splits of a file source: what exists, how big it is, and which event times it holds.

A plan is made from these once and never from a listing again (FLIP-27: the split enumerator).
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from sources.errors import InputError
from sources.file_source import FileSource
from sources.schema import TIMESTAMP, differences, normalize_schema, parse_schema, type_name

# Columns of the table of splits, one row a split, in reading order.
SPLITS = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),  # bytes
        ("modified_ns", pa.int64()),
        ("rows", pa.int64()),  # null where the format does not tell
        ("event_min_us", pa.int64()),  # null where the split is empty
        ("event_max_us", pa.int64()),
    ]
)
SAMPLE_BYTES = 1 << 20
_WORKERS = 8


@dataclass(frozen=True)
class FileListing:
    """All splits of one source.

    Attributes:
        splits: A table of schema :data:`SPLITS`, ordered by event time.
        columns: Their common schema.
        exact: Whether event times come from all rows, not from a sample.
    """

    splits: pa.Table
    columns: pa.Schema
    exact: bool


def list_splits(source: FileSource, event_time: str, paths: Sequence[str]) -> FileListing:
    """Read the statistics of a source's files.

    Args:
        source: The declaration.
        event_time: The event-time column.
        paths: The files, as :func:`find_files` has them.

    Raises:
        InputError: One can't be read (which), columns differ between files (both shown), or the
            event-time column is missing or no timestamp.
    """
    declared = parse_schema(source.columns) if source.columns else None
    if declared is not None:
        check_event_time(declared, event_time, f"the schema of source `{source.name}`")

    def read(path: str) -> tuple[dict[str, Any], pa.Schema | None]:
        if source.format == "parquet":
            return _parquet_split(path, event_time, declared)
        assert declared is not None
        return _json_split(path, event_time, declared), declared

    with ThreadPoolExecutor(_WORKERS) as pool:
        found = list(pool.map(read, paths))
    columns = declared
    for split, schema in found:
        columns = columns or schema
        if schema is not None and columns is not None and (rows := differences(columns, schema)):
            raise InputError(_drift(source.name, paths[0], split["path"], rows))
    assert columns is not None
    table = pa.Table.from_pylist([split for split, _ in found], SPLITS)
    order = [("event_min_us", "ascending"), ("event_max_us", "ascending"), ("path", "ascending")]
    return FileListing(table.sort_by(order), columns, exact=source.format == "parquet")


def find_files(source: FileSource, folder: Path) -> list[str]:
    """The files that a source's globs match, absolute and sorted.

    Names that begin with ``_`` or ``.`` are left out, as everywhere in Spark; a folder stands
    for all files below it.

    Raises:
        InputError: Nothing matches, or the path is not on a local file system.
    """
    found: set[str] = set()
    for pattern in source.patterns:
        if "://" in pattern:
            message = f"Source `{source.name}`: `{pattern}` is not on a local file system."
            raise InputError(message, "Name a local path.")
        relative = str(Path(pattern).expanduser())
        base = folder / Path(relative[: _magic_at(relative)] + "x").parent
        for name in glob.iglob(relative, root_dir=folder, recursive=True):
            match = folder / name
            files = match.rglob("*") if match.is_dir() and "**" not in pattern else [match]
            found.update(str(file) for file in files if file.is_file() and _is_data(file, base))
    if not found:
        message = f"Source `{source.name}`: no file matches {', '.join(source.patterns)}"
        raise InputError(message, f"(looked from {folder}).")
    return sorted(found)


def check_event_time(columns: pa.Schema, event_time: str, where: str) -> None:
    """Refuse columns without a usable event time.

    Raises:
        InputError: The column is missing, or is no timestamp.
    """
    if event_time not in columns.names:
        message = f"`event_time: {event_time}` is not in {where}."
        raise InputError(message, f"It has {', '.join(columns.names)}.")
    kind = columns.field(event_time).type
    if kind != TIMESTAMP:
        message = f"`event_time: {event_time}` is of type {type_name(kind)} in {where}."
        raise InputError(message, "It must be a timestamp.")


def _magic_at(pattern: str) -> int:
    return next((at for at, char in enumerate(pattern) if char in "*?["), len(pattern))


def _is_data(file: Path, base: Path) -> bool:
    relative = file.relative_to(base) if file.is_relative_to(base) else Path(file.name)
    return not any(part.startswith(("_", ".")) for part in relative.parts)


def _drift(source: str, first: str, other: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"    {name}: {left} | {right}" for name, left, right in rows]
    head = f"Source `{source}`: files differ in their columns.\n    {first} | {other}"
    return "\n".join([head, *lines])


def _stat(path: str) -> dict[str, Any]:
    status = Path(path).stat()
    return {"path": path, "size": status.st_size, "modified_ns": status.st_mtime_ns, "rows": None}


def _unreadable(path: str, kind: str, error: Exception) -> InputError:
    message = f"{path} can't be read as {kind}: {error}"
    return InputError(message, "Repair or remove it, then plan again.")


def _parquet_split(
    path: str, event_time: str, declared: pa.Schema | None
) -> tuple[dict[str, Any], pa.Schema]:
    try:
        split = _stat(path)
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            if declared is not None:
                schema = pa.schema([field for field in schema if field.name in declared.names])
            schema = normalize_schema(schema)
            check_event_time(schema, event_time, path)
            split["rows"] = file.metadata.num_rows
            low, high = _parquet_range(file, event_time)
    except (OSError, OverflowError, pa.ArrowException) as error:
        raise _unreadable(path, "Parquet", error) from None
    return {**split, "event_min_us": low, "event_max_us": high}, schema


def _parquet_range(file: pq.ParquetFile, column: str) -> tuple[int | None, int | None]:
    """Lowest and highest event time in microseconds, from statistics or the column itself."""
    names = [file.metadata.schema.column(at).path for at in range(file.metadata.num_columns)]
    at = names.index(column)
    lows: list[int] = []
    highs: list[int] = []
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(at).statistics
        # Nanoseconds and Spark's own INT96 come without usable statistics.
        if (
            statistics is None
            or not statistics.has_min_max
            or not isinstance(statistics.min, datetime)
        ):
            return _column_range(file.read(columns=[column]).column(0))
        lows.append(_micros(statistics.min))
        highs.append(_micros(statistics.max))
    return (min(lows), max(highs)) if lows else (None, None)


def _micros(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _column_range(values: pa.ChunkedArray) -> tuple[int | None, int | None]:
    micros = values.cast(TIMESTAMP, safe=False).cast(pa.int64())
    extremes = pc.min_max(micros)
    return extremes["min"].as_py(), extremes["max"].as_py()


def _json_split(path: str, event_time: str, columns: pa.Schema) -> dict[str, Any]:
    """Event times of the first and the last lines: never above the true highest one."""
    try:
        split = _stat(path)
        samples = [_json_head(path)]
        if split["size"] > SAMPLE_BYTES and not path.endswith((".gz", ".bz2", ".zst")):
            samples.append(_json_tail(path, split["size"]))
        ranges = [
            _column_range(read_json_block(sample, columns).column(event_time))
            for sample in samples
            if sample.strip()
        ]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, "JSON lines", error) from None
    lows = [low for low, _ in ranges if low is not None]
    highs = [high for _, high in ranges if high is not None]
    return {
        **split,
        "event_min_us": min(lows, default=None),
        "event_max_us": max(highs, default=None),
    }


def changed_splits(splits: pa.Table) -> list[str]:
    """Planned files that are gone or were rewritten since (size or modification time)."""
    changed = []
    for path, size, modified in zip(
        *(splits[name].to_pylist() for name in ("path", "size", "modified_ns")), strict=True
    ):
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            changed.append(f"{path} is gone")
            continue
        if (status.st_size, status.st_mtime_ns) != (size, modified):
            changed.append(f"{path} was rewritten")
    return changed


def read_json_block(lines: bytes, columns: pa.Schema) -> pa.Table:
    """Parse whole JSON lines into a table of exactly these columns.

    Raises:
        pyarrow.ArrowInvalid: A line is no JSON object or a value does not fit its column.
    """
    options = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    read = pa_json.ReadOptions(block_size=max(len(lines), 1))
    return pa_json.read_json(pa.BufferReader(lines), read, options).select(columns.names)


def _json_head(path: str) -> bytes:
    with pa.input_stream(path, compression="detect") as stream:
        head: bytes = stream.read(SAMPLE_BYTES)
    cut = head.rfind(b"\n")
    return head if len(head) < SAMPLE_BYTES or cut < 0 else head[: cut + 1]


def _json_tail(path: str, size: int) -> bytes:
    with Path(path).open("rb") as stream:
        stream.seek(size - SAMPLE_BYTES)
        tail = stream.read()
    return tail[tail.find(b"\n") + 1 :]
