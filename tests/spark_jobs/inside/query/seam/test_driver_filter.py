"""Rows in the driver's memory that history contains: told by their own values alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.common.database_snapshot import (
    BinlogSnapshot,
    PostgresSnapshot,
    file_position,
    gtid_position,
    snapshot_position,
)
from sources.common.shard_snapshots import ShardSnapshots
from spark_jobs.inside.query.seam.driver_filter import DriverFilter
from spark_jobs.inside.query.seam.duplicate_filters import (
    SeamFilter,
    SequenceFilter,
    SnapshotFilter,
)

SNAPSHOT = PostgresSnapshot(lsn=500, xmin=70, xmax=75, in_progress=[70, 72], taken_ms=0)
PARTS = {"lsn": "_lsn", "transaction": "_tx", "position": "_position", "topic": 'the "topic"'}
FIRST = "0" * 32
CHANGES = pa.schema(
    [
        ("_lsn", pa.int64()),
        ("_tx", pa.int64()),
        ("_position", pa.string()),
        ('the "topic"', pa.string()),
        ("paid", pa.bool_()),
        ("price", pa.decimal128(38, 2)),
    ]
)


def changes(*rows: tuple[int | None, int | None, str | None]) -> pa.RecordBatch:
    """Log position, transaction and position of each change, with other columns."""
    made = [
        {"_lsn": lsn, "_tx": transaction, "_position": position, 'the "topic"': "a", "paid": True}
        for lsn, transaction, position in rows
    ]
    return pa.RecordBatch.from_pylist(made, CHANGES)


def new(seam: SeamFilter, rows: pa.RecordBatch) -> pa.RecordBatch | None:
    found = DriverFilter.of(seam, rows.schema)
    assert found is not None
    return found.new(rows)


def is_held(lsn: int | None, transaction: int | None) -> bool:
    """As PostgreSQL's pg_visible_in_snapshot, for transactions near the snapshot's."""
    if lsn is None or lsn > SNAPSHOT.lsn:
        return False
    if transaction is None:
        return True
    return transaction < SNAPSHOT.xmax and transaction not in SNAPSHOT.in_progress


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(450, 550),
            st.none() | st.integers(60, 80),
            st.sampled_from(["a", f"{FIRST[:-1]}1"]),
        )
    )
)
def test_exactly_the_changes_that_a_snapshot_sees_are_left_out(
    rows: list[tuple[int | None, int | None, str]],
) -> None:
    found = new(SnapshotFilter(PARTS, SNAPSHOT), changes(*rows))
    assert found == changes(*(row for row in rows if not is_held(row[0], row[1])))


def test_a_change_that_must_end_the_run_is_left_to_spark() -> None:
    seam = SnapshotFilter(PARTS, SNAPSHOT)
    assert new(seam, changes((501, 90, "a"), (600, None, FIRST))) is None


@pytest.mark.parametrize(
    ("snapshot", "positions", "kept"),
    [
        (
            BinlogSnapshot(file=3, offset=90, domain=None, sequence=0, taken_ms=0),
            [file_position(3, 89), file_position(3, 90), file_position(4, 4), None],
            [1, 2, 3],
        ),
        (
            BinlogSnapshot(file=3, offset=90, domain=0, sequence=7, taken_ms=0),
            [gtid_position(0, 7, 9, 9), gtid_position(0, 8, 0, 0), snapshot_position(3, 90)],
            [1],
        ),
    ],
)
def test_changes_of_a_binary_log_are_told_by_their_positions(
    snapshot: BinlogSnapshot, positions: list[str | None], kept: list[int]
) -> None:
    rows = changes(*((None, None, position) for position in positions))
    assert new(SnapshotFilter(PARTS, snapshot), rows) == rows.take(pa.array(kept))


def test_a_change_is_judged_by_the_snapshot_of_its_shard() -> None:
    later = SNAPSHOT.model_copy(update={"lsn": 900, "xmax": 200, "in_progress": []})
    shards = ShardSnapshots({"a": SNAPSHOT, "b's": later})
    rows = changes((600, 100, "x"), (600, 100, "y"))
    topics = rows.schema.names.index('the "topic"')
    rows = rows.set_column(topics, CHANGES.field(topics), pa.array(["a", "b's"]))
    assert new(SnapshotFilter(PARTS, shards), rows) == rows.slice(0, 1)


def test_a_log_position_that_is_a_number_is_compared_with_that_of_history() -> None:
    rows = changes((499, 1, "a"), (500, 1, "b"), (501, 1, "c"), (None, 1, "d"))
    assert new(SequenceFilter("_lsn", 500), rows) == rows.take(pa.array([2, 3]))


def test_other_types_than_numbers_and_texts_are_left_to_spark() -> None:
    assert DriverFilter.of(SequenceFilter("price", 500), CHANGES) is None
