"""A snapshot that is interrupted and continued, while the database's table goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hybrid_extensions.cdc.databases import snapshot_copy
from hybrid_extensions.cdc.databases.captured_table import CapturedTable, Division, QueryError
from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy
from sources.common.database_snapshot import PostgresSnapshot
from sources.common.positions import TopicPartition
from sources.config.loader import LoadedPipeline, declare
from sources.config.source.snapshot import SnapshotManifest
from sources.errors import RunError
from tests.e2e.changes.cdc_case import INCLUDE
from tests.minimal import minimal_declaration

MERGE = {"mode": "merge", "key": ["id"], "sequence": "_position", "deleted": "_deleted"}
HISTORY = MERGE | {"history": "_committed_at", "deletes": "soft"}
PARTITION = TopicPartition("shop.public.orders", 0)
APPEND = {"mode": "append", "key": ["id", "_position"]}


class Database:
    """A table of ids in two chunks: those below 10, and the others.

    Attributes:
        rows: The ids that it has.
        fails: Chunk at which the connection is lost; none by default.
    """

    def __init__(self) -> None:
        self.rows = [1, 11]
        self.fails = -1
        self.snapshots = 0
        self.definition, self.warnings = None, ()

    @contextmanager
    def open_table(self, _: CapturedTable) -> Iterator[Database]:
        yield self

    def readers(self, _: int) -> Sequence[Any]:
        self.snapshots += 1
        at = self.snapshots
        seen = PostgresSnapshot(lsn=at, xmin=at, xmax=at, in_progress=[], taken_ms=at)
        return [SimpleNamespace(snapshot=seen, rows=self.read)]

    def divide(self, known: Division | None = None) -> Division:
        return known or Division(("id", "bigint"), ["10"])

    def read(self, _: Division, chunk: int) -> Iterator[pa.RecordBatch]:
        if chunk == self.fails:
            raise QueryError("server closed the connection", is_connection_lost=True)
        ids = [each for each in self.rows if (each >= 10) == bool(chunk)]
        yield pa.record_batch({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    made = Database()
    ends = SimpleNamespace(log_end=lambda: {PARTITION: made.snapshots})
    monkeypatch.setattr(snapshot_copy, "access_to", lambda _: made)
    monkeypatch.setattr(snapshot_copy, "require_settings", lambda *_: None)
    monkeypatch.setattr(snapshot_copy, "create_missing_topics", lambda _: None)
    monkeypatch.setattr(snapshot_copy, "KafkaLog", lambda _: ends)
    return made


def pipeline(folder: Path, sink: dict[str, Any]) -> LoadedPipeline:
    document = minimal_declaration(
        {
            "name": "snapshot",
            "type": "files",
            "path": "snapshot/*.parquet",
            "format": "parquet",
            "snapshot": {"dsn": "slotted://db/shop", "slot": "shop"},
        },
        {
            "name": "changes",
            "type": "kafka",
            "topic": "shop.public.orders",
            "bootstrap_servers": "localhost:1",
            "format": "debezium",
            "table": "public.orders",
            "schema": {"id": "bigint"},
            "include": INCLUDE,
        },
        event_time="_committed_at",
        sink={"path": "out", **sink},
    )
    return declare(folder / "orders.yaml", document)


def interrupted(folder: Path, sink: dict[str, Any], database: Database) -> SnapshotManifest:
    """Lose the connection at the second chunk; both chunks get rows; take the snapshot again."""
    loaded = pipeline(folder, sink)
    source, lines = loaded.pipeline.file_source("snapshot"), list[str]()
    database.fails = 1
    with pytest.raises(RunError, match="server closed the connection"):
        SnapshotCopy(loaded, source, lines.append).take()
    database.rows += [2, 12]
    database.fails = -1
    return SnapshotCopy(loaded, source, lines.append).take()


def ids(folder: Path) -> list[int]:
    table = pq.read_table(folder / "snapshot", columns=["id"])
    return sorted(table["id"].to_pylist())


def test_a_merged_table_keeps_the_chunks_that_it_has(tmp_path: Path, database: Database) -> None:
    manifest = interrupted(tmp_path, MERGE, database)
    assert [each.taken_ms for each in manifest.snapshots] == [1, 2]
    # The topic brings 2, as it is read from the first snapshot on.
    assert (ids(tmp_path), manifest.offsets) == ([1, 11, 12], {PARTITION: 0})


@pytest.mark.parametrize("sink", [APPEND, HISTORY])
def test_a_table_that_keeps_every_change_is_of_one_snapshot(
    tmp_path: Path, database: Database, sink: dict[str, Any]
) -> None:
    manifest = interrupted(tmp_path, sink, database)
    # Read from the first snapshot on, the topic would bring 12 a second time.
    assert [each.taken_ms for each in manifest.snapshots] == [2]
    assert {each.snapshot for each in manifest.done.values()} == {0}
    assert (ids(tmp_path), manifest.offsets) == ([1, 2, 11, 12], {PARTITION: 1})
