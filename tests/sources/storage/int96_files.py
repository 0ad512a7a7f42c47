"""Delta tables with files as Spark wrote them before: times as INT96."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

FAR = datetime(9999, 12, 31, tzinfo=UTC)
EARLY = datetime(1, 1, 1, tzinfo=UTC)
"""Times that nanoseconds since 1970 can't hold."""


def store_as_int96(table: Path) -> None:
    """Write the files of a local Delta table again in place, with their times as INT96."""
    sizes = {}
    for file in table.rglob("*.parquet"):
        rows = pq.read_table(file)
        # Without Arrow's own schema, by which readers would know the unit.
        pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
        sizes[file.name] = file.stat().st_size
    for commit in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                action["add"]["size"] = sizes[Path(action["add"]["path"]).name]
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
