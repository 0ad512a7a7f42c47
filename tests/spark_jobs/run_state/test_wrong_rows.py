"""Which rows of a mirror are wrong, and when they are right again."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from sources.storage.folder import Folder
from spark_jobs.inside.readers.detect_wrong_rows import RepairWatch
from spark_jobs.inside.readers.topics.decode_records import KEY, REPAIRED
from spark_jobs.inside.readers.topics.kafka_stream import OFFSET, PARTITION, TOPIC
from spark_jobs.run_state import wrong_rows
from spark_jobs.run_state.repairs import Repairs, Righted
from spark_jobs.run_state.wrong_rows import Change, keep_wrong_rows, read_wrong_rows


@pytest.fixture
def state(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def bad(offset: int, key: bytes | None = b"1", partition: int = 0) -> Change:
    return Change(partition, offset, key, is_wrong=True)


def good(offset: int, key: bytes = b"1", partition: int = 0) -> Change:
    return Change(partition, offset, key, is_wrong=False)


def wrong(state: Folder) -> int:
    return read_wrong_rows(state, "changes").count


def test_a_row_is_wrong_until_a_later_good_change_of_it(state: Folder) -> None:
    keep_wrong_rows(state, "changes", 1, [bad(5), bad(7, b"2"), good(4)])
    assert wrong(state) == 2
    assert read_wrong_rows(state, "changes").record_keys == {b"1", b"2"}
    keep_wrong_rows(state, "changes", 2, [good(9)])
    assert read_wrong_rows(state, "changes").record_keys == {b"2"}
    # In one batch, in the order of the topic; a batch that is tried again changes nothing.
    for _ in range(2):
        keep_wrong_rows(state, "changes", 3, [good(12, b"2"), bad(11, b"2"), bad(13), good(10)])
        assert read_wrong_rows(state, "changes").record_keys == {b"1"}
    # Partitions were added to the topic: its offsets are others.
    keep_wrong_rows(state, "changes", 3, [good(2, partition=7)])
    assert wrong(state) == 1
    keep_wrong_rows(state, "changes", 4, [good(2, partition=7)])
    assert wrong(state) == 0


def test_a_repair_makes_good_what_was_wrong_when_it_began_and_nothing_later(state: Folder) -> None:
    keep_wrong_rows(state, "changes", 3, [bad(5), bad(6, b"2"), bad(7, None)])
    righted = {"changes": Righted(batch=3, unknown=1)}
    state.replace(Repairs.NAME, Repairs(righted=righted))
    assert wrong(state) == 0
    # Another bad change of a row that was made good, and one that has no key.
    keep_wrong_rows(state, "changes", 4, [bad(8), bad(9, None)])
    assert (wrong(state), read_wrong_rows(state, "changes").record_keys) == (2, {b"1"})
    keep_wrong_rows(state, "changes", 5, [good(10), bad(11, b"3"), bad(12, None)])
    assert (wrong(state), read_wrong_rows(state, "changes").record_keys) == (3, {b"3"})


def test_what_has_no_key_stays_wrong_and_counts_once(
    state: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        keep_wrong_rows(state, "changes", 1, [bad(5, None), bad(5, None), bad(6, None)])
        assert wrong(state) == 2
    monkeypatch.setattr(wrong_rows, "MOST_KEYS", 2)
    keep_wrong_rows(state, "changes", 2, [bad(n, b"%d" % n) for n in range(10, 15)])
    assert wrong(state) == 2 + 5


@pytest.mark.parametrize("seed", range(5))
def test_any_way_to_batch_the_changes_ends_in_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    changes, last = [], {}
    for offset in range(80):
        key = b"%d" % chance.randrange(6)
        make = chance.choice([bad, good])
        changes.append(make(offset, key))
        last[key] = make is bad
    state = Folder(tmp_path)
    at, batch = 0, 0
    while at < len(changes):
        size = chance.randint(1, 20)
        part = changes[at : at + size]
        keep_wrong_rows(state, "changes", batch, chance.sample(part, len(part)))
        at, batch = at + size, batch + 1
    assert read_wrong_rows(state, "changes").record_keys == {
        k for k, is_bad in last.items() if is_bad
    }


def test_a_change_that_lacks_a_value_repairs_nothing(state: Folder) -> None:
    keep_wrong_rows(state, "changes", 1, [bad(5), bad(7, b"2")])
    watch = RepairWatch(state, "changes", "kept")
    rows = pa.RecordBatch.from_pydict(
        {
            TOPIC: ["t"] * 4,
            PARTITION: pa.array([0] * 4, pa.int32()),
            OFFSET: pa.array([8, 9, 10, 11], pa.int64()),
            KEY: [b"1", b"2", b"3", None],
            "kept": pa.array(
                [None, [("body", None)], None, None], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    found = watch.staged(rows, watch.wrong_keys())
    assert found.select(["offset", "key", "kind"]).to_pylist() == [
        {"offset": 8, "key": b"1", "kind": REPAIRED}
    ]
