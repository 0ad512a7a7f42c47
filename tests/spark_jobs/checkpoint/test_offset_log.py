"""Reading Spark's checkpoint, as Spark 4.2 with Delta 4.4 writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.common.positions import TopicPartition
from sources.errors import StateError
from sources.storage.folder import Folder
from spark_jobs.checkpoint import offset_log

_OFFSET = '{"sourceVersion":1,"reservoirId":"x","reservoirVersion":%d,"index":%d}'
READING = _OFFSET % (0, 3)
DRAINED = _OFFSET % (1, -1)


def batch(folder: Path, number: int, *lines: str, committed: bool) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    text = "\n".join(["v1", '{"batchWatermarkMs":0}', *lines])
    (folder / "offsets" / str(number)).write_text(text)
    if committed:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_checkpoint_that_is_not_there_has_committed_nothing(tmp_path: Path) -> None:
    assert offset_log.last_committed(Folder(tmp_path / "none")) is None
    assert offset_log.committed_offset(Folder(tmp_path / "none"), 0) is None


def test_only_a_committed_batch_counts(tmp_path: Path) -> None:
    batch(tmp_path, 0, READING, "-", committed=True)
    batch(tmp_path, 1, DRAINED, "-", committed=False)
    assert offset_log.last_committed(Folder(tmp_path)) == 0
    assert not offset_log.is_drained(offset_log.committed_offset(Folder(tmp_path), 0), 1)


def test_a_committed_batch_whose_offsets_were_deleted_is_refused_by_name(tmp_path: Path) -> None:
    batch(tmp_path, 0, READING, committed=True)
    (tmp_path / "offsets" / "0").unlink()
    with pytest.raises(StateError, match=f"Checkpoint file {tmp_path}/offsets/0 is missing"):
        offset_log.next_offsets(Folder(tmp_path), 0)


def test_batches_are_counted_as_numbers_not_as_names(tmp_path: Path) -> None:
    for number in range(11):
        batch(tmp_path, number, READING, committed=True)
    assert offset_log.last_committed(Folder(tmp_path)) == 10


def test_a_planned_source_is_drained_beyond_its_last_version(tmp_path: Path) -> None:
    batch(tmp_path, 0, DRAINED, '{"t":{"0":17,"1":4}}', committed=True)
    assert offset_log.is_drained(offset_log.committed_offset(Folder(tmp_path), 0), 1)
    found = offset_log.kafka_offsets(offset_log.committed_offset(Folder(tmp_path), 1))
    assert found == {TopicPartition("t", 0): 17, TopicPartition("t", 1): 4}


def test_a_source_that_never_had_its_turn_has_no_offset(tmp_path: Path) -> None:
    batch(tmp_path, 0, READING, "-", committed=True)
    assert offset_log.committed_offset(Folder(tmp_path), 1) is None
    assert offset_log.committed_offset(Folder(tmp_path), 2) is None
    assert not offset_log.is_drained(None, 1)


@pytest.mark.parametrize(("offset", "done"), [(None, 0), (READING, 4), (DRAINED, 6)])
def test_progress_is_the_position_in_the_plan(
    tmp_path: Path, offset: str | None, done: int
) -> None:
    batch(tmp_path, 0, offset or "-", committed=True)
    found = offset_log.committed_offset(Folder(tmp_path), 0)
    assert offset_log.position_in_plan(found, [6]) == done


def test_progress_goes_on_over_the_rounds_after_the_plan() -> None:
    rounds = [6, 2, 3]
    assert not offset_log.is_drained({"reservoirVersion": 2, "index": -100}, 3)
    assert offset_log.position_in_plan({"reservoirVersion": 2, "index": -100}, rounds) == 8
    assert offset_log.position_in_plan({"reservoirVersion": 2, "index": 1}, rounds) == 10
    assert offset_log.position_in_plan({"reservoirVersion": 3, "index": -100}, rounds) == 11
    assert offset_log.is_drained({"reservoirVersion": 3, "index": -100}, 3)


def test_the_start_that_spark_fixed_is_read_back(tmp_path: Path) -> None:
    assert offset_log.initial_kafka_offsets(Folder(tmp_path), 1) is None
    (tmp_path / "sources" / "1").mkdir(parents=True)
    (tmp_path / "sources" / "1" / "0").write_text('v1\n{"t":{"0":500,"1":7}}')
    found = offset_log.initial_kafka_offsets(Folder(tmp_path), 1)
    assert found == {TopicPartition("t", 0): 500, TopicPartition("t", 1): 7}


def test_the_watermark_of_a_batch_is_read(tmp_path: Path) -> None:
    batch(tmp_path, 0, READING, committed=True)
    (tmp_path / "offsets/1").write_text('v1\n{"batchWatermarkMs":1700000000000}\n-')
    found = [offset_log.watermark_ms(Folder(tmp_path), number) for number in (0, 1)]
    assert found == [0, 1_700_000_000_000]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("v1\n", id="without metadata"),
        pytest.param('v1\n{"batchWatermarkMs":0}', id="without sources"),
        pytest.param(f'v1\n{{"batchWatermarkMs":0}}\n{READING[:-9]}', id="cut within a source"),
        pytest.param("v1\n" + "[" * 100_000 + "\n-", id="nested without end"),
        pytest.param("\0" * 40, id="zeros"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_never_taken_for_a_source_that_was_not_read(
    tmp_path: Path, text: str
) -> None:
    batch(tmp_path, 0, READING, committed=True)
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(StateError, match=f"Checkpoint file {tmp_path}/offsets/0 is damaged"):
        offset_log.next_offsets(Folder(tmp_path), 0)
    with pytest.raises(StateError, match="is damaged"):
        offset_log.watermark_ms(Folder(tmp_path), 0)


@pytest.mark.parametrize(
    "text",
    ["", "\0" * 40, '{"id":"a', "[]", "{}", "[" * 100_000],
    ids=["empty", "zeros", "cut", "a list", "without id", "nested without end"],
)
def test_a_damaged_id_of_the_query_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(StateError, match=f"Checkpoint file {tmp_path}/metadata is damaged"):
        offset_log.query_id(Folder(tmp_path))
    assert (tmp_path / "metadata").read_text() == text


@pytest.mark.parametrize(
    "text",
    ["", "\0" * 40, "v1\n", 'v1\n{"t":{"0":5', 'v1\n{"t":5}'],
    ids=["empty", "zeros", "without offsets", "cut", "of another form"],
)
def test_a_damaged_start_of_a_topic_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources" / "1").mkdir(parents=True)
    (tmp_path / "sources" / "1" / "0").write_text(text)
    with pytest.raises(StateError, match=f"Checkpoint file {tmp_path}/sources/1/0 is damaged"):
        offset_log.initial_kafka_offsets(Folder(tmp_path), 1)
