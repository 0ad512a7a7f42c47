"""How long changes of a database take until readers of the Delta table see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
from deltalake import DeltaTable

from sources.common.sql.sql_names import quoted
from sources.config.loader import LoadedPipeline


def latencies(loaded: LoadedPipeline, since_ms: int) -> Iterator[float]:
    """Yield, for each row, the seconds from the commit in the database to the Delta table's commit.

    Args:
        loaded: As for :func:`seen_rows`.
        since_ms: As there.
    """
    return (latency for _, latency in seen_rows(loaded, since_ms))


def seen_rows(loaded: LoadedPipeline, since_ms: int) -> Iterator[tuple[float, float]]:
    """Yield the time of each row's commit in the database, and how long the Delta commit took.

    Both in seconds, the time since 1970. The new rows of a table version are those whose log
    position is higher than that of all rows of earlier versions.

    Args:
        loaded: A pipeline whose rows carry their position and `_committed_at`, with a table on a
            disk.
        since_ms: Versions committed earlier (ms since 1970) are left out.
    """
    path = loaded.locate(loaded.pipeline.sink.path)
    table = DeltaTable(path)
    position = loaded.pipeline.sink.order[0]
    highest: Any = None
    for entry in sorted(table.history(), key=lambda each: each["version"]):
        top = highest
        for file in _added(Path(path), entry["version"]):
            # Rows of the snapshot have no position.
            with duckdb.connect() as connection:
                rows = connection.execute(
                    f"SELECT {quoted(position)}, epoch(_committed_at) FROM read_parquet($file) "
                    f"WHERE {quoted(position)} > coalesce($highest, '')",
                    {"file": str(file), "highest": highest},
                ).fetchall()
            for place, committed in rows:
                top = place if top is None else max(top, place)
                if entry["timestamp"] >= since_ms:
                    yield committed, entry["timestamp"] / 1000 - committed
        highest = top


def _added(table: Path, version: int) -> Iterator[Path]:
    """Yield the files that a version of a Delta table added and that still exist."""
    for line in (table / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        if (add := json.loads(line).get("add")) is not None:
            file = table / unquote(add["path"])
            if file.exists():
                yield file
