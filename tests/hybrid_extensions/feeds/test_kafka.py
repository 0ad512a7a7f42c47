"""A compacted topic of a real broker as a second sink."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from hybrid_extensions.feeds.sinks import kafka_topic
from sources.errors import InputError, StateError, UnavailableError
from tests.hybrid_extensions.feeds.feed_case import FeedCase, row

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Topic(FeedCase):
    """A pipeline that feeds a topic."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.topic = f"rows-{uuid.uuid4().hex[:8]}"
        self.servers = servers
        self.feed = {
            "name": "rows",
            "type": "kafka",
            "topic": self.topic,
            "bootstrap_servers": servers,
            "columns": ["n", "at", "ok"],
        }
        super().__init__(folder, self.feed)

    def create(self, partitions: int = 3, policy: str = "compact") -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        new = NewTopic(self.topic, partitions, config={"cleanup.policy": policy})
        admin.create_topics([new])[self.topic].result(30)

    def records(self) -> list[tuple[str, str | None, dict[str, str]]]:
        """Key, value and headers of all committed records, in the order of each partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        count = len(consumer.list_topics(self.topic, 10).topics[self.topic].partitions)
        consumer.assign([TopicPartition(self.topic, n, 0) for n in range(count)])
        found, left = [], count
        while left:
            message = consumer.poll(10)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                left -= 1
                continue
            value = message.value()
            headers = {name: text.decode() for name, text in message.headers()}
            text = None if value is None else value.decode()
            found.append((message.key().decode(), text, headers))
        consumer.close()
        return found

    def last_rows(self) -> dict[tuple[int, str], Any]:
        last = {key: value for key, value, _ in self.records()}
        return {
            (json.loads(key)["id"], json.loads(key)["part"]): json.loads(value)
            for key, value in last.items()
            if value is not None
        }

    def expected(self) -> dict[tuple[int, str], Any]:
        rows = self.table.to_pyarrow_table().to_pylist()
        return {
            (each["id"], each["part"]): {
                "id": each["id"],
                "part": each["part"],
                "n": each["n"],
                "at": None if each["at"] is None else f"{each['at']:%Y-%m-%dT%H:%M:%S.%fZ}",
                "ok": each["ok"],
            }
            for each in rows
        }


@pytest.fixture
def case(tmp_path: Path, servers: str) -> Topic:
    made = Topic(tmp_path, servers)
    made.write(row(n) for n in range(100))
    return made


def test_a_load_then_changes_and_deletes_make_the_topic_equal(case: Topic) -> None:
    case.create()
    assert case.deliver().kind == "load"
    assert case.last_rows() == case.expected()
    case.write(row(n, 1) for n in range(50, 120))
    case.delete("id < 10")
    done = case.deliver()
    assert (done.kind, done.rows) == ("changes", 80)
    assert case.last_rows() == case.expected()
    records = case.records()
    assert len(records) == 180
    assert records[-1][2] == {"hybrid-feed": "delays.rows", "hybrid-version": "3"}
    assert case.deliver().kind == "none"


def test_a_topic_that_is_not_there_is_created_compacted(case: Topic) -> None:
    case.deliver()
    case.write([row(1, 1)])
    case.deliver()
    assert case.last_rows() == case.expected()


@pytest.mark.parametrize("what", ["promotion", "made again"])
def test_a_load_leaves_no_stale_key(case: Topic, what: str) -> None:
    case.deliver()
    if what == "promotion":
        case.delete("id > 30")
        case.own("second")
    else:
        shutil.rmtree(case.target)
        case.write(row(n, 1) for n in range(5))
    assert case.deliver().kind == "load"
    assert case.last_rows() == case.expected()


class Ending(Producer):  # type: ignore[misc] # it has no types
    """A producer whose process ends after the records, before the position."""

    def send_offsets_to_transaction(self, *_: Any) -> None:
        raise KeyboardInterrupt("The process ended here.")


def test_a_delivery_that_fails_leaves_nothing(case: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    case.deliver()
    before = case.records()
    case.write(row(n, 1) for n in range(20))
    with monkeypatch.context() as patched:
        patched.setattr(kafka_topic, "Producer", Ending)
        with case.follower() as follower, pytest.raises(KeyboardInterrupt):
            follower.deliver()
    assert case.records() == before
    assert case.deliver().kind == "changes"
    assert case.last_rows() == case.expected()


def test_a_follower_that_was_replaced_writes_nothing_more(case: Topic) -> None:
    with case.follower() as slow:
        slow.deliver()
        case.write([row(1, 1)])
        # Another follower begins.
        case.deliver()
        case.write([row(1, 2)])
        before = case.records()
        with pytest.raises(StateError, match="Another follower feeds `rows` now"):
            slow.deliver()
        assert case.records() == before


def test_a_topic_that_deletes_by_age_is_refused(case: Topic) -> None:
    case.create(policy="delete")
    with pytest.raises(InputError, match=r"cleanup\.policy=delete"):
        case.deliver()


def test_a_topic_that_was_made_again_and_deletes_by_age_is_refused(case: Topic) -> None:
    case.create()
    with case.follower() as follower:
        follower.deliver()
        admin = AdminClient({"bootstrap.servers": case.servers})
        admin.delete_topics([case.topic])[case.topic].result(30)
        while case.topic in admin.list_topics(timeout=10).topics:
            time.sleep(0.1)
        case.create(policy="delete")
        case.write([row(1, 1)])
        with pytest.raises(InputError, match=r"`cleanup\.policy=delete`"):
            follower.deliver()
    assert case.records() == []


def test_records_of_others_are_not_deleted(case: Topic) -> None:
    case.create(1)
    producer = Producer({"bootstrap.servers": case.servers})
    producer.produce(case.topic, b"x", b"theirs")
    producer.flush()
    with pytest.raises(InputError, match=r"records that feed `delays.rows` has not written"):
        case.deliver()


def test_records_that_others_add_later_are_not_deleted(case: Topic) -> None:
    case.create(1)
    case.deliver()
    producer = Producer({"bootstrap.servers": case.servers})
    producer.produce(case.topic, b"x", b"theirs", headers={"hybrid-feed": "another.rows"})
    producer.flush()
    before = case.records()
    with pytest.raises(InputError, match=r"records that feed `delays.rows` has not written"):
        case.deliver(reload=True)
    assert case.records() == before


class Silent(Consumer):  # type: ignore[misc] # it has no types
    """A consumer that gets no records, as of a partition without a leader."""

    def poll(self, *_: Any) -> None:
        return None

    def consume(self, *_: Any) -> list[Any]:
        return []


def test_a_topic_that_can_t_be_read_is_nobody_s_own(
    case: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.create(1)
    producer = Producer({"bootstrap.servers": case.servers})
    producer.produce(case.topic, b"x", b"theirs", headers={"hybrid-feed": "another.rows"})
    producer.flush()
    before = case.records()
    with monkeypatch.context() as patched:
        patched.setattr(kafka_topic, "Consumer", Silent)
        patched.setattr(kafka_topic, "_TIMEOUT_S", 5.0)
        with pytest.raises(UnavailableError, match=f"Partition 0 of topic `{case.topic}`"):
            case.deliver()
    assert case.records() == before


class Stopping(Producer):  # type: ignore[misc] # it has no types
    """A producer that can't commit the last transaction of a load."""

    positions = 0

    def send_offsets_to_transaction(self, *given: Any) -> None:
        self.positions += 1
        if self.positions > 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        super().send_offsets_to_transaction(*given)


def test_a_load_that_the_same_follower_repeats_leaves_no_stale_key(
    case: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with case.follower() as follower:
        with monkeypatch.context() as patched:
            patched.setattr(kafka_topic, "Producer", Stopping)
            with pytest.raises(UnavailableError):
                follower.deliver()
        case.delete("id > 30")
        assert follower.deliver().kind == "load"
    assert case.last_rows() == case.expected()


def test_a_broker_that_is_down_is_waited_for(case: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid_extensions.feeds.sinks.kafka_topic.LOOK_S", 1.0)
    case.declare({**case.feed, "bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(UnavailableError, match="The broker of feed `rows` failed"):
        case.deliver()


def test_more_partitions_are_refused(case: Topic) -> None:
    case.create(2)
    with case.follower() as running:
        running.deliver()
        admin = AdminClient({"bootstrap.servers": case.servers})
        admin.create_partitions([NewPartitions(case.topic, 4)])[case.topic].result(30)
        case.write([row(1, 1)])
        for deliver in (running.deliver, case.deliver):
            with pytest.raises(InputError, match="has 4 partitions now, and had 2"):
                deliver()
