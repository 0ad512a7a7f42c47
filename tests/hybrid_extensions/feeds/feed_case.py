"""A pipeline with feeds, whose target is written by Delta's Rust library instead of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import yaml
from deltalake import DeltaTable

from hybrid_extensions.feeds.base import Comparison
from hybrid_extensions.feeds.declare import feeds_of
from hybrid_extensions.feeds.delivery_loop import compare, deliver_once
from hybrid_extensions.feeds.follower import DeliveryOutcome, Follower
from sources.config.loader import LoadedPipeline, load_pipeline
from sources.serving import OWNER
from sources.storage.tables.delta import delta_table, is_delta_table
from tests.services.lake import Edit

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("part", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("x", pa.float64()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("ok", pa.bool_()),
        pa.field("data", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
KEY = ["id", "part"]


def row(number: int, version: int = 0, part: str = "a") -> dict[str, Any]:
    """A row that differs from that of another version in all columns but the key."""
    if number % 7 == 6:
        return {**dict.fromkeys(SCHEMA.names), "id": number, "part": part, "n": version}
    text = f'{number}, "{version}"\n' if number % 3 else ""
    return {
        "id": number,
        "part": part,
        "n": version,
        "x": [0.1 + number, float("inf"), float("nan"), 1e300][number % 4] if version else number,
        "price": Decimal(number * 100 + version) / 100,
        "day": date(2024, 1, 1) + timedelta(days=version),
        "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=number * 1000 + version),
        "ok": bool(version % 2),
        "data": bytes([number % 256, version % 256]),
        "tags": [text, None] if number % 2 else [],
    }


class FeedCase:
    """One pipeline, its target, and its feeds.

    Args:
        folder: An empty folder.
        feeds: Its feeds, as declared.
        partition_by: Columns by which the target is partitioned.
        move: Moves state and target elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        *feeds: dict[str, Any],
        partition_by: Sequence[str] = (),
        move: Edit = lambda _: None,
    ) -> None:
        self.folder = folder
        self._move = move
        self.target = folder / "target"
        self._partition_by = list(partition_by)
        self.declare(*feeds)

    def declare(self, *feeds: dict[str, Any]) -> None:
        document = {
            "name": "delays",
            "sources": [
                {"type": "files", "name": "history", "path": "in/*.parquet", "format": "parquet"}
            ],
            "event_time": "at",
            "transform": "same:same",
            "sink": {"path": "target", "mode": "merge", "key": KEY},
            "state": "state",
            "feeds": list(feeds),
        }
        self._move(document)
        self.path.write_text(yaml.safe_dump(document))

    @property
    def path(self) -> Path:
        return self.folder / "delays.yaml"

    @property
    def loaded(self) -> LoadedPipeline:
        return load_pipeline(self.path)

    @property
    def table(self) -> DeltaTable:
        return delta_table(self.loaded.target)

    def follower(self, number: int = 0) -> Follower:
        loaded = self.loaded
        return Follower(loaded, feeds_of(loaded)[number])

    def deliver(self, number: int = 0, *, reload: bool = False) -> DeliveryOutcome:
        """What another process does that begins now and delivers what there is."""
        loaded = self.loaded
        return deliver_once(loaded, feeds_of(loaded)[number], reload=reload)

    def compare(self, sample: int) -> Comparison:
        loaded = self.loaded
        return compare(loaded, feeds_of(loaded)[0], sample)

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Insert or update rows by key, in one commit; the first one is version 1."""
        found = pa.Table.from_pylist(list(rows), SCHEMA)
        target = self.loaded.target
        if not is_delta_table(target):
            DeltaTable.create(
                target.url,
                SCHEMA,
                partition_by=self._partition_by or None,
                configuration={OWNER: "first"},
                raise_if_key_not_exists=False,
                storage_options=target.documents.delta_options,
            )
        merge = self.table.merge(found, _SAME, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def own(self, generation: str) -> None:
        """What a promotion changes besides the rows."""
        self.table.alter.set_table_properties({OWNER: generation}, raise_if_not_exists=False)

    def difference(self, rows: Iterable[dict[str, Any]]) -> list[Any]:
        """Rows that the target and a sink do not share, each once too many or too few."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("_target", self.table.to_pyarrow_table())
            connection.register("_sink", pa.Table.from_pylist(list(rows), SCHEMA))
            found: list[Any] = connection.execute(
                "(FROM _target EXCEPT ALL FROM _sink) UNION ALL BY NAME "
                "(FROM _sink EXCEPT ALL FROM _target)"
            ).fetchall()
            return found


_SAME = " AND ".join(f"s.{name} = t.{name}" for name in KEY)


def from_texts(texts: dict[str, str | None]) -> dict[str, Any]:
    """A row of the target from the texts that a sink holds; absent ones are null."""
    reading: dict[str, Any] = {
        "id": int,
        "n": int,
        "x": float,
        "price": Decimal,
        "day": date.fromisoformat,
        "at": datetime.fromisoformat,
        "ok": lambda text: {"true": True, "false": False}[text],
        "data": lambda text: bytes.fromhex(text.removeprefix("\\x")),
        "tags": json.loads,
    }
    return {
        name: None if texts.get(name) is None else reading.get(name, str)(texts[name])
        for name in SCHEMA.names
    }
