"""The log of batches as the engine sends them: each change once, whatever is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybrid_extensions.change_log.engine import Sent
from hybrid_extensions.change_log.position import start_at
from hybrid_extensions.change_log.segments import Change, Segments
from hybrid_extensions.change_log.writer import Writer
from sources.errors import StateError, UnavailableError
from sources.storage.folder import Folder
from tests.services.small_disk import SmallDisk, small_disk

PARTITION = {"server": "shop"}


def change(commit: int, lsn: int, value: bytes = b"{}", topic: str = "shop.t") -> Sent:
    offset = {"lsn": lsn, "lsn_commit": commit, "lsn_proc": lsn, "messageType": "INSERT"}
    return Sent(topic, b"k", value, PARTITION, offset)


def heartbeat(commit: int) -> Sent:
    return change(commit, commit, topic="__debezium-heartbeat.shop")


def message(lsn: int) -> Sent:
    offset = {"lsn": lsn, "lsn_commit": lsn, "messageType": "MESSAGE"}
    return Sent("shop.message", None, b"m", PARTITION, offset)


def row(file: int, pos: int, event: int, row: int, value: bytes = b"{}") -> Sent:
    offset = {"file": f"binlog.{file:06d}", "pos": pos, "event": event, "row": row, "ts_sec": 1}
    return Sent("shop.t", b"k", value, PARTITION, offset)


class Log:
    """A log whose writer and engine begin again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)
        self.begin()

    def begin(self) -> dict[str, Any] | None:
        """As after a kill; returns where the engine begins."""
        self.segments = Segments(self.folder)
        self.writer = Writer(self.segments, self.folder, "__debezium-heartbeat")
        return None if self.writer.position is None else self.writer.position.start

    def values(self, topic: str = "shop.t") -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < self.segments.end(topic):
            found += self.segments.read(topic, len(found), 1 << 20).values
        return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def test_a_transaction_that_is_sent_again_from_its_begin_is_written_once(log: Log) -> None:
    # Three rows of one entry of the log, as of COPY, and a tombstone.
    sent = [
        change(100, 110, b"1"),
        change(100, 110, b"2"),
        change(100, 110, b"3"),
        change(100, 120, b"4"),
        change(100, 120, b"5"),
        change(200, 105, b"6"),
    ]
    for cut in range(1, len(sent)):
        log.writer.take(sent[:cut])
        start = log.begin()
        assert start == start_at(sent[cut - 1].offset)
        again = [each for each in sent if each.offset["lsn_commit"] >= start["lsn_commit"]]
        assert log.writer.take(again) == len(again) - 1
        assert log.begin() is not None
        assert log.values() == [each.value for each in sent]
        log.folder.delete_all()
        log.begin()


def test_a_change_may_begin_where_the_transaction_before_it_ends(log: Log) -> None:
    log.writer.take([change(100, 110, b"1"), change(130, 130, b"2"), change(130, 130, b"3")])
    assert log.begin() == {"lsn": 129, "lsn_commit": 130, "ts_usec": 0}
    log.writer.take([change(130, 130, b"2"), change(130, 130, b"3"), change(130, 140, b"4")])
    assert log.values() == [b"1", b"2", b"3", b"4"]


def test_changes_after_a_message_outside_of_transactions_are_not_taken_for_older(log: Log) -> None:
    # The transaction began before the message, and ended after it.
    sent = [message(150), change(150, 120, b"1"), change(150, 125, b"2")]
    log.writer.take(sent[:2])
    log.begin()
    log.writer.take(sent)
    assert (log.values(), log.values("shop.message")) == ([b"1", b"2"], [b"m"])


def test_rows_of_a_binary_logs_transaction_are_known_by_event_and_row(log: Log) -> None:
    sent = [row(2, 50, 1, 1, b"1"), row(2, 50, 1, 2, b"2"), row(2, 50, 2, 1, b"3")]
    log.writer.take(sent[:2])
    assert log.begin() == {"file": "binlog.000002", "pos": 50, "ts_sec": 1}
    log.writer.take([*sent, row(10, 4, 1, 1, b"4")])
    assert log.values() == [b"1", b"2", b"3", b"4"]


def test_a_heartbeat_at_the_begin_of_a_file_moves_nothing_back(log: Log) -> None:
    sent = [row(2, 50, 1, 1, b"1"), row(2, 50, 1, 2, b"2")]
    log.writer.take(sent[:1])
    log.begin()
    log.writer.take([row(2, 4, 0, 0)._replace(topic="__debezium-heartbeat.shop")])
    assert log.begin() == start_at(sent[0].offset)
    log.writer.take([row(2, 4, 0, 0)._replace(topic="__debezium-heartbeat.shop")])
    log.writer.take(sent)
    assert log.values() == [b"1", b"2"]


def test_a_heartbeat_moves_the_position_and_is_acknowledged_only_then(log: Log) -> None:
    log.writer.begin(PARTITION, {"lsn": 90, "lsn_commit": 90})
    assert log.writer.take([change(90, 95, b"1"), heartbeat(100)]) == 1
    # Kept at once would be a request to the store each second.
    log.writer._written = 1e12
    assert log.writer.take([heartbeat(300)]) == -1
    assert log.begin() == start_at(heartbeat(100).offset)
    assert log.writer.take([heartbeat(300)]) == 0
    assert log.begin() == start_at(heartbeat(300).offset)
    log.writer.take([change(300, 95, b"2")])
    assert log.values() == [b"1", b"2"]


def test_of_two_writers_one_is_refused(log: Log) -> None:
    other = Log(Path(log.folder.url))
    log.writer.take([change(100, 110, b"1")])
    with pytest.raises(StateError, match=r"written by another process"):
        other.writer.take([change(100, 110, b"2")])
    log.begin()
    assert log.values() == [b"1"]


def test_a_segment_that_is_gone_is_loud(log: Log) -> None:
    for number in range(3):
        log.writer.take([change(number, number)])
    log.folder.delete("segments/000000000001.parquet")
    with pytest.raises(StateError, match=r"Segment 1 .* is gone: changes are missing"):
        log.begin()


def test_old_segments_are_deleted_and_never_the_last_one(log: Log) -> None:
    for number in range(3):
        log.segments.append([Change("shop.t", None, str(number).encode())], {})
    log.segments.delete_before(log.segments.last.at_ms + 1000)
    assert (log.segments.start("shop.t"), log.segments.end("shop.t")) == (2, 3)
    log.begin()
    assert (log.segments.start("shop.t"), log.segments.end("shop.t")) == (2, 3)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", "1m") as made:
        yield made


def test_on_a_full_disk_nothing_is_acknowledged_and_nothing_lost(disk: SmallDisk) -> None:
    log = Log(disk.folder / "log")
    log.writer.take([change(100, 110, b"1")])
    disk.fill()
    with pytest.raises(UnavailableError, match=r"can't be written: No space left"):
        log.writer.take([change(100, 120, b"2" * 100_000)])
    disk.free()
    assert log.begin() == start_at(change(100, 110).offset)
    log.writer.take([change(100, 110, b"1"), change(100, 120, b"2")])
    assert log.values() == [b"1", b"2"]
