"""Of several processes that copy one table into one folder, one does; in any store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hybrid_extensions.cdc import snapshots
from hybrid_extensions.cdc.databases.snapshot_copy import SnapshotCopy
from hybrid_extensions.servers.broker import create_topic
from hybrid_extensions.servers.databases.postgres import LocalPostgres
from sources.config.loader import LoadedPipeline
from sources.config.source.snapshot import MANIFEST, SnapshotManifest
from sources.errors import StateError
from spark_jobs.run_state.lock import take_lock
from tests.e2e.changes.captured import captured
from tests.e2e.changes.cdc_case import INCLUDE
from tests.services.captured_database import captured_database
from tests.services.lake import BUCKET, Edit, lake

pytestmark = [pytest.mark.slow, pytest.mark.kafka]

_FILL = (
    "CREATE TABLE orders (id bigint PRIMARY KEY)",
    "INSERT INTO orders SELECT generate_series(1, 1000)",
    "ANALYZE orders",
)


@pytest.fixture
def database(postgres: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with captured_database(postgres, _FILL) as found:
        yield found


def declare(
    folder: Path, servers: str, database: tuple[str, str], name: str, move: Edit, place: str
) -> LoadedPipeline:
    """A pipeline whose snapshot is in a folder of the store."""
    topic = f"shop.public.{uuid.uuid4().hex[:8]}"
    create_topic(servers, topic, 1, {"retention.ms": "-1"})
    dsn, slot = database

    def edit(document: dict[str, Any]) -> None:
        move(document)
        document["name"] = name
        document["sources"][0]["path"] = f"{place}snapshot/*.parquet"
        document["sources"][0]["snapshot"]["workers"] = 1

    changes = {
        "topic": topic,
        "bootstrap_servers": servers,
        "table": "public.orders",
        "schema": {"id": "bigint"},
        "include": INCLUDE,
    }
    return captured(folder, "orders", {"dsn": dsn, "slot": slot}, changes, ["id"], edit)


@pytest.mark.parametrize("store", ["disk", "s3"])
def test_a_second_one_is_refused_until_the_first_has_ended(
    store: Any, tmp_path: Path, servers: str, database: tuple[str, str]
) -> None:
    with lake(store, tmp_path) as move:
        place = "" if store == "disk" else f"s3://{BUCKET}/"
        one, other = (
            declare(tmp_path, servers, database, name, move, place) for name in ("one", "other")
        )
        seen: list[str] = []

        def meanwhile(line: str) -> None:
            seen.append(line)
            if len(seen) > 1:
                return
            # Of the same pipeline, and of another one with the same folder.
            for each in (one, other):
                with pytest.raises(StateError, match="Another process copies") as caught:
                    snapshots.take(each, seen.append)
                assert caught.value.transient
            found = snapshots.take_together([other], seen.append)
            assert "Another process copies" in str(found["other"])

        [taken] = snapshots.take(one, meanwhile)
        assert len(seen) == 5
        assert taken.document["rows"] == 1000
        assert taken.document["interrupted"] == 0
        # What is complete is not copied, so nobody is in the way.
        folder = SnapshotCopy(one, one.pipeline.file_source("snapshot"), seen.append).folder
        lock = take_lock(folder, snapshots._LOCK)
        assert lock is not None
        assert snapshots.take(other, seen.append)[0].position == taken.position
        lock.release()


def test_one_that_slept_while_another_one_went_on_writes_no_manifest(
    tmp_path: Path, servers: str, database: tuple[str, str]
) -> None:
    loaded = declare(tmp_path, servers, database, "one", lambda _: None, "")
    copy = SnapshotCopy(loaded, loaded.pipeline.file_source("snapshot"), lambda _: goes_on())

    def goes_on() -> None:
        there = copy.folder.read(MANIFEST, SnapshotManifest)
        assert there is not None
        # As another process, which found the lease expired, and has read the next chunk.
        copy.folder.replace(
            MANIFEST, there.model_copy(update={"done": there.done | {3: there.done[0]}})
        )

    with pytest.raises(StateError, match=r"Another process has written .* in the meantime"):
        copy.take()
    kept = copy.folder.read(MANIFEST, SnapshotManifest)
    assert kept is not None
    assert set(kept.done) == {0, 3}


def test_rows_that_the_table_gets_before_the_rest_is_read_make_chunks_of_their_own(
    tmp_path: Path, servers: str, database: tuple[str, str]
) -> None:
    loaded = declare(tmp_path, servers, database, "one", lambda _: None, "")
    copy = SnapshotCopy(loaded, loaded.pipeline.file_source("snapshot"), lambda _: None)
    assert copy.take(first_only=True).total == 5
    with psycopg.connect(database[0]) as connection:
        connection.execute("INSERT INTO orders SELECT generate_series(1001, 2100)")
    whole = copy.take()
    rows = [whole.done[number].rows for number in range(whole.total)]
    assert sum(rows) == 2100
    # None is more than twice as long as declared.
    assert (len(rows), max(rows) <= 400) == (10, True)
