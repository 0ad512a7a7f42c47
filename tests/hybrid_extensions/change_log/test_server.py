"""The log as clients of Kafka see it: librdkafka, by this project's look-ups and readers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At

from hybrid_extensions.change_log import segments as segments_module
from hybrid_extensions.change_log import server as server_module
from hybrid_extensions.change_log.segments import Change, Rows, Segments
from hybrid_extensions.change_log.server import LogServer
from sources.common.positions import TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, SeamError
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.client.kafka_log import KafkaLog
from sources.kafka.ranges.cut_ranges import Split
from sources.kafka.ranges.range_reader import RangeReader
from sources.storage.folder import Folder

pytestmark = pytest.mark.slow
ROWS, QUIET = TopicPartition("shop.rows", 0), TopicPartition("shop.quiet", 0)


class Served:
    """A log with its server."""

    def __init__(self, folder: Path) -> None:
        self.segments = Segments(Folder(folder))
        self.server = LogServer(
            self.segments,
            lambda: {"shop.quiet", *self.segments.last.ends},
            ("127.0.0.1", 0),
            retention_ms=3_600_000,
        )

    def append(self, *values: bytes | None, topic: str = "shop.rows") -> None:
        self.segments.append([Change(topic, b"k", value) for value in values], {})
        self.server.wake_clients()

    def source(self, *topics: str) -> KafkaSource:
        servers = self.server.address
        names = list(topics or ("shop.rows",))
        return KafkaSource(type="kafka", name="live", topic=names, bootstrap_servers=servers)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "log")
    with made.server:
        made.server.open()
        yield made


def test_offsets_times_and_settings_are_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        monkeypatch.setattr(segments_module, "now_ms", lambda at=number: 1000 * at)
        served.append(b"x", b"y")
    log = KafkaLog(served.source("shop.rows", "shop.quiet"))
    assert log.partitions == [QUIET, ROWS]
    assert log.log_start() == {ROWS: 0, QUIET: 0}
    assert log.log_end() == {ROWS: 12, QUIET: 0}
    assert log.offsets_for_time(3000) == {ROWS: 6, QUIET: None}
    assert log.offsets_for_time(2001) == {ROWS: 6, QUIET: None}
    assert log.offsets_for_time(5001) == {ROWS: None, QUIET: None}
    assert log.settings()["shop.rows"]["retention.ms"] == "3600000"
    assert log.newest_ms() == {ROWS: 5000, QUIET: None}
    assert log.identities()["shop.rows"].startswith(served.segments.identity)
    served.segments.delete_before(2000)
    assert log.log_start() == {ROWS: 4, QUIET: 0}


def test_a_topic_that_is_not_captured_does_not_exist(served: Served) -> None:
    with pytest.raises(InputError, match=r"shop\.other"):
        KafkaLog(served.source("shop.other"))


def test_a_range_is_read_with_tombstones_and_large_values(served: Served) -> None:
    values = [b"a", None, b"b" * 3_000_000, *(str(n).encode() for n in range(5000))]
    served.append(*values[:2])
    served.append(b"other", topic="shop.quiet")
    served.append(*values[2:])
    reader = RangeReader(consumer_settings(served.source()))
    read = [
        (message.offset(), message.key(), message.value())
        for messages in reader.read(Split(ROWS, 1, len(values)))
        for message in messages
    ]
    reader.close()
    assert read == [(at, b"k", values[at]) for at in range(1, len(values))]


def test_a_deleted_offset_is_named(served: Served) -> None:
    for value in (b"1", b"2"):
        served.append(value)
    served.segments.delete_before(served.segments.last.at_ms + 1)
    reader = RangeReader(consumer_settings(served.source()))
    with pytest.raises(SeamError, match=r"offset 0 .* no longer holds"):
        list(reader.read(Split(ROWS, 0, 2)))
    reader.close()


def test_who_waits_for_a_record_gets_it_when_it_comes(served: Served) -> None:
    served.append(b"1")
    settings = {**consumer_settings(served.source()), "fetch.wait.max.ms": 60_000}
    consumer = Consumer({**settings, "socket.timeout.ms": 70_000, "enable.partition.eof": False})
    consumer.assign([At("shop.rows", 0, 0)])
    first = consumer.poll(20)
    assert first is not None
    assert first.value() == b"1"
    later = threading.Timer(1, served.append, [b"2"])
    later.start()
    second = consumer.poll(20)
    assert second is not None
    assert second.value() == b"2"
    consumer.close()


def test_what_is_found_slowly_is_sent_before_the_client_gives_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [str(number).encode() for number in range(60)]
    for value in values:
        served.append(value)
    monkeypatch.setattr(server_module, "_ANSWER_S", 0.1)
    read, reads = Segments.read, []

    def slowly(segments: Segments, topic: str, offset: int, most_bytes: int = 1) -> Rows:
        reads.append(offset)
        time.sleep(0.05)
        return read(segments, topic, offset, most_bytes)

    monkeypatch.setattr(Segments, "read", slowly)
    # Less than it takes to read all, and more than an answer takes.
    short = {"socket.timeout.ms": 1500, "fetch.wait.max.ms": 100}
    consumer = Consumer({**consumer_settings(served.source()), **short})
    consumer.assign([At("shop.rows", 0, 0)])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(found) < len(values) and time.monotonic() < deadline:
        messages = consumer.consume(100, 1)
        found += [each.value() for each in messages if each.error() is None]
    consumer.close()
    assert found == values
    assert len(reads) < 2 * len(values), "none is read again and again"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"\x7f\xff\xff\xff", id="2 GiB"),
        pytest.param(b"\x80\0\0\0", id="a negative size"),
        pytest.param(b"\0\0\0\x03\0\x03\0", id="cut"),
        pytest.param(b"\0\0\0\x0c\0\x03\0\x01\0\0\0\x01\0\x02\xff\xff", id="no text"),
        pytest.param(b"\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\x7f\xff\xff\xff", id="2 G topics"),
    ],
)
def test_what_is_no_request_ends_its_own_connection_only(
    served: Served, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    served.append(b"1")
    host, port = served.server.address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(sent)
        assert client.recv(1) == b"", "the server closes the connection"
    assert KafkaLog(served.source()).log_end() == {ROWS: 1}
    assert "Traceback" not in capfd.readouterr().err
