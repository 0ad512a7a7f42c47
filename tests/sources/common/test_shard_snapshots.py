"""A change is judged by the snapshot of the shard that it comes from."""

from __future__ import annotations

import duckdb

from sources.common.database_snapshot import PostgresSnapshot
from sources.common.shard_snapshots import ShardSnapshots

COLUMNS = {"topic": "topic", "lsn": "lsn", "transaction": "tx", "position": "position"}
EARLY = PostgresSnapshot(lsn=100, xmin=10, xmax=10, in_progress=[], taken_ms=0)
LATE = PostgresSnapshot(lsn=500, xmin=50, xmax=50, in_progress=[], taken_ms=0)
BOTH = ShardSnapshots({"it's.orders": EARLY, "us.orders": LATE})


def asked(condition: str, topic: str | None, lsn: int, tx: int | None, position: str = "1") -> bool:
    query = (
        f"SELECT {condition} FROM (SELECT ?::VARCHAR AS topic, ?::BIGINT AS lsn, ?::BIGINT AS tx, "
        "?::VARCHAR AS position)"
    )
    with duckdb.connect() as connection:
        (found,) = connection.execute(query, [topic, lsn, tx, position]).fetchall()[0]
    assert found is not None
    return bool(found)


def test_equal_positions_of_two_shards_mean_different_things() -> None:
    held = BOTH.holds(COLUMNS)
    assert not asked(held, "it's.orders", 300, 30)
    assert asked(held, "us.orders", 300, 30)
    assert asked(held, "it's.orders", 90, 9)
    # What is of no shard is in none of the snapshots.
    assert not asked(held, "asia.orders", 1, 1)
    assert not asked(held, None, 1, 1)


def test_a_connectors_second_snapshot_is_told_by_its_shards_position() -> None:
    (again,) = BOTH.refusals(COLUMNS).values()
    assert asked(again, "it's.orders", 300, None, "000")
    assert not asked(again, "us.orders", 300, None, "000")
    assert not asked(again, "asia.orders", 900, None, "000")
