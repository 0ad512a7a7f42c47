"""Which offsets a micro-batch reads, by the checkpoint that Spark writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sources.common.positions import TopicPartition
from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.checkpoint.batch_ranges import BatchRanges

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


def begin(checkpoint: Path, number: int, ends: dict[str, int], other: str = "-") -> None:
    """Write what Spark writes before a micro-batch, for a topic after one other source."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), other, json.dumps({"events": ends})]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))


def fix_start(checkpoint: Path, starts: dict[str, int]) -> None:
    (checkpoint / "sources/1").mkdir(parents=True)
    (checkpoint / "sources/1/0").write_text("v1\n" + json.dumps({"events": starts}))


def test_the_first_micro_batch_begins_where_the_topic_was_started(tmp_path: Path) -> None:
    fix_start(tmp_path, {"0": 5, "1": 7})
    begin(tmp_path, 4, {"0": 10, "1": 7}, '{"index": 1}')
    (tmp_path / "offsets/3").write_text('v1\n{}\n{"index": 1}\n-')
    assert BatchRanges(Folder(tmp_path), 1).of(4) == {FIRST: (5, 10)}


def test_each_next_one_begins_where_the_one_before_has_ended(tmp_path: Path) -> None:
    fix_start(tmp_path, {"0": 0, "1": 0})
    ranges = BatchRanges(Folder(tmp_path), 1)
    begin(tmp_path, 0, {"0": 3, "1": 4})
    assert ranges.of(0) == {FIRST: (0, 3), SECOND: (0, 4)}
    begin(tmp_path, 1, {"0": 8, "1": 4})
    assert ranges.of(1) == {FIRST: (3, 8)}
    # After a failure, the same query begins it again.
    assert ranges.of(1) == BatchRanges(Folder(tmp_path), 1).of(1) == {FIRST: (3, 8)}


def test_where_a_new_partition_begins_is_not_known(tmp_path: Path) -> None:
    fix_start(tmp_path, {"0": 0})
    begin(tmp_path, 0, {"0": 3})
    begin(tmp_path, 1, {"0": 3, "1": 9})
    begin(tmp_path, 2, {"0": 4, "1": 9})
    ranges = BatchRanges(Folder(tmp_path), 1)
    assert ranges.of(1) is None
    assert ranges.of(2) == {FIRST: (3, 4)}


def test_what_is_more_than_new_offsets_is_left_to_spark(tmp_path: Path) -> None:
    fix_start(tmp_path, {"0": 0})
    read, more = '{"reservoirVersion": 1, "index": -1}', '{"reservoirVersion": 1, "index": 2}'
    begin(tmp_path, 0, {"0": 5}, read)
    begin(tmp_path, 1, {"0": 6}, read)
    # The source before has something to read, although it was read to its end.
    begin(tmp_path, 2, {"0": 7}, more)
    # The topic was created again.
    begin(tmp_path, 3, {"0": 2}, more)
    begin(tmp_path, 4, {}, more)
    ranges = BatchRanges(Folder(tmp_path), 1)
    assert ranges.of(0) is None
    assert ranges.of(1) == {FIRST: (5, 6)}
    assert [ranges.of(number) for number in (2, 3, 4)] == [None, None, None]


def test_a_micro_batch_without_offsets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"offsets/0 is missing"):
        BatchRanges(Folder(tmp_path), 1).of(0)
