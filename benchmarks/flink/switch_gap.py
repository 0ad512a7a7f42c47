"""How long a table stood still between its last row of history and its first live one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.flink.results import files_of_flink


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table.

    Attributes:
        path: Its path.
        closed_ms: When its last row was written, in ms since 1970.
        committed_ms: When it became part of the table, in ms since 1970.
        highest_id: The highest id of its rows.
    """

    path: Path
    closed_ms: int
    committed_ms: int
    highest_id: int = -1


@dataclass(frozen=True)
class Gap:
    """A switch, as the table shows it.

    Attributes:
        from_row_ms: From the last row of history to the commit of the first live one, in ms.
        from_commit_ms: From the last commit of history to that commit, in ms; 0 if it is the same.
    """

    from_row_ms: int
    from_commit_ms: int


def delta_files(table: Path) -> list[DataFile]:
    """Return the files of a Delta table that is only appended to, with their highest ids."""
    found = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = map(json.loads, commit.read_text().splitlines())
        paths = [table / action["add"]["path"] for action in actions if "add" in action]
        committed_ms = _ms(commit.stat().st_mtime_ns)
        found += [DataFile(path, _ms(path.stat().st_mtime_ns), committed_ms) for path in paths]
    return _with_ids(found)


def flink_files(table: Path) -> list[DataFile]:
    """Return the files that Flink has committed, which it does by renaming, with their ids."""
    found = []
    for name in files_of_flink(table):
        stat = Path(name).stat()
        found.append(DataFile(Path(name), _ms(stat.st_mtime_ns), _ms(stat.st_ctime_ns)))
    return _with_ids(found)


def gap(files: Sequence[DataFile], first_live: int, history_read_ms: int | None = None) -> Gap:
    """Return the gap between history and live rows.

    Args:
        files: The files of the table.
        first_live: The id of the first row that is not history; those of history are lower.
        history_read_ms: When the last row of history was read, in ms since 1970. If left out, that
            is when the last file that holds only history was closed.
    """
    live_ms = min(file.committed_ms for file in files if file.highest_id >= first_live)
    history = [file for file in files if file.highest_id < first_live]
    if history_read_ms is None:
        history_read_ms = max(file.closed_ms for file in history)
    committed_ms = max(min(file.committed_ms, live_ms) for file in history)
    return Gap(live_ms - history_read_ms, live_ms - committed_ms)


def _ms(ns: int) -> int:
    return ns // 1_000_000


def _with_ids(files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files with the highest ids of their rows; those without rows are left out."""
    query = "SELECT filename, max(id) FROM read_parquet(?, filename = true) GROUP BY ALL"
    with duckdb.connect() as connection:
        found = connection.execute(query, [[str(file.path) for file in files]]).fetchall()
    highest = dict(found)
    return [
        DataFile(file.path, file.closed_ms, file.committed_ms, highest[str(file.path)])
        for file in files
        if str(file.path) in highest
    ]
