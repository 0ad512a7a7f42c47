"""A pipeline whose feed keeps what it delivers, and one whose table training reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.kept.comparison import ServedAsTrained, compare_served
from tests.hybrid_extensions.feeds.test_python_function import Function
from tests.minimal import minimal_pipeline
from tests.services.lake import Edit

TIME = pa.timestamp("us", "UTC")
HISTORY = pa.schema(
    [("id", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("known_at", TIME)]
)


def at(ms: int) -> datetime:
    """A time in ms since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC)


class Kept(Function):
    """A pipeline that feeds a function, and keeps the deliveries of the column ``n``."""

    def __init__(self, folder: Path, move: Edit = lambda _: None, **keep: Any) -> None:
        super().__init__(folder, move)
        self.plain = {**self.feed, "columns": ["n"]}
        self.keep = {"path": "kept", "trained_on": "history.yaml", **keep}
        self.declare({**self.plain, "keep": self.keep})

    @property
    def kept(self) -> list[dict[str, Any]]:
        """The rows of the table of deliveries, in their order."""
        rows: list[dict[str, Any]] = DeltaTable(self.folder / "kept").to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda each: (each["feed_delivery"], each["id"], each["part"]))

    def short(self) -> list[tuple[Any, ...]]:
        """Number, kind, version, key, value and marks of each kept row."""
        names = ("delivery", "kind", "version")
        marks = ("is_deleted", "is_new")
        return [
            (
                *(each[f"feed_{name}"] for name in names),
                *(each["id"], each["n"]),
                *(each[f"feed_{name}"] for name in marks),
            )
            for each in self.kept
        ]

    def train(self, rows: Iterable[tuple[int, int | None, datetime]]) -> None:
        """Let training read a table with these rows: id, value, and when it became known."""
        minimal_pipeline(
            self.folder,
            {"name": "h", "type": "files", "path": "in/*.parquet", "format": "parquet"},
            name="history",
            transform="same:same",
            sink={"path": "history", "mode": "append", "key": ["id", "part", "known_at"]},
        )
        made = [
            {"id": number, "part": "a", "n": value, "known_at": known}
            for number, value, known in rows
        ]
        table = pa.Table.from_pylist(made, HISTORY)
        write_deltalake(self.folder / "history", table, mode="overwrite")

    def served(self, **asked: Any) -> ServedAsTrained:
        loaded = self.loaded
        return compare_served(loaded, feeds_of(loaded)[0], **asked)
