"""The example feed in a real topic."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from examples.flight_data import FeedRecord, create_feed_topic, feed_records, main, produce
from sources.common.positions import TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError, RunError
from sources.kafka.client.kafka_log import KafkaLog

pytestmark = pytest.mark.kafka


def log_of(servers: str, topic: str) -> KafkaLog:
    return KafkaLog(KafkaSource(type="kafka", name="live", topic=topic, bootstrap_servers=servers))


def test_the_topic_keeps_all_records_with_their_own_time(servers: str) -> None:
    create_feed_topic(servers)
    records = feed_records()
    assert produce(records, servers) == len(records)
    topic = log_of(servers, "flights")
    settings = topic.settings()["flights"]
    assert settings["retention.ms"] == "-1"
    assert settings["message.timestamp.type"] == "CreateTime"
    ends = topic.log_end()
    airports = Counter(record.key for record in records)
    assert sorted(ends.values()) == sorted(airports.values())
    found = topic.read(topic.log_start(), 10, ends)
    values = {(record.timestamp_ms, record.value) for record in found}
    assert values <= {(record.timestamp_ms, record.value.encode()) for record in records}
    with pytest.raises(InputError, match="a second feed would duplicate its records"):
        create_feed_topic(servers)


def test_a_record_that_the_broker_refuses_is_an_error(servers: str) -> None:
    create_feed_topic(servers, "refused", 1)
    tomorrow = int(time.time() * 1000) + 86_400_000
    with pytest.raises(RunError, match="`refused` rejected a record"):
        produce([FeedRecord(tomorrow, "JFK", "{}")], servers, "refused")


def test_a_feed_is_played_at_the_rate_asked_for(servers: str) -> None:
    create_feed_topic(servers, "played", 1)
    started = time.monotonic()
    assert produce(feed_records()[:50], servers, "played", rate=100) == 50
    assert time.monotonic() - started > 0.48
    assert log_of(servers, "played").log_end() == {TopicPartition("played", 0): 50}


def test_the_command_writes_both(
    servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--out", str(tmp_path), "--bootstrap-servers", servers, "--topic", "written"])
    assert capsys.readouterr().out == "273 files, and 99243 records in topic `written`.\n"
    assert len(list(tmp_path.glob("history/day=*/part-0.parquet"))) == 273
    assert sum(log_of(servers, "written").log_end().values()) == 99_243
