"""Topics that do not exist: created as declared, waited for, or refused by name."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from hybrid_extensions.servers.broker import create_topic
from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.kafka.client.create_topics import create_missing_topics
from sources.kafka.client.kafka_log import KafkaLog

pytestmark = pytest.mark.kafka


def source(servers: str, **declared: Any) -> KafkaSource:
    topic = {} if "topic_pattern" in declared else {"topic": f"new-{uuid.uuid4().hex[:8]}"}
    known = {"type": "kafka", "name": "live", "bootstrap_servers": servers}
    return KafkaSource.model_validate({**known, **topic, **declared})


def test_a_missing_topic_is_created_once_as_it_is_declared(servers: str) -> None:
    settings = {"retention.ms": -1, "cleanup.policy": "delete"}
    declared = {"create": {"partitions": 3, "replication_factor": 1, "settings": settings}}
    live = source(servers, missing_topic=declared)
    assert create_missing_topics(live) == live.topics
    assert create_missing_topics(live) == []
    log = KafkaLog(live)
    assert [each.partition for each in log.partitions] == [0, 1, 2]
    assert log.settings()[live.topics[0]]["retention.ms"] == "-1"
    assert set(log.log_end().values()) == {0}


def test_without_numbers_the_brokers_are_taken_and_a_topic_that_exists_is_left(
    servers: str,
) -> None:
    there = f"there-{uuid.uuid4().hex[:8]}"
    create_topic(servers, there, 2)
    new = f"new-{uuid.uuid4().hex[:8]}"
    live = source(servers, topic=[there, new], missing_topic={"create": {}})
    assert create_missing_topics(live) == [new]
    assert len([each for each in KafkaLog(live).partitions if each.topic == there]) == 2


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"replication_factor": 7}, "(?i)replication factor"),
        ({"settings": {"no.such.setting": "1"}}, "no.such.setting"),
    ],
)
def test_a_refusal_names_topic_and_reason_and_the_way_out(
    servers: str, declared: dict[str, Any], told: str
) -> None:
    live = source(servers, missing_topic={"create": declared})
    with pytest.raises(InputError, match=told) as caught:
        create_missing_topics(live)
    assert f"Topic `{live.topics[0]}` can't be created on {servers}" in caught.value.message
    assert "Correct `missing_topic` of source `live`" in caught.value.hint


def test_only_what_declares_it_creates_topics(servers: str) -> None:
    for declared in ("wait", "refuse"):
        live = source(servers, missing_topic=declared)
        assert create_missing_topics(live) == []
        known = AdminClient({"bootstrap.servers": servers}).list_topics().topics
        assert live.topics[0] not in known


def test_a_missing_topic_is_refused_with_the_way_out(servers: str) -> None:
    with pytest.raises(InputError, match="There is no topic `new-") as caught:
        KafkaLog(source(servers))
    assert "declare `missing_topic`" in caught.value.hint


def test_a_topic_that_is_waited_for_is_an_empty_log(servers: str) -> None:
    live = source(servers, missing_topic="wait")
    log = KafkaLog(live)
    assert (log.partitions, log.missing) == ([], live.topics)
    asked = [log.identities(), log.settings(), log.log_start(), log.log_end(), log.newest_ms()]
    assert [*asked, log.offsets_for_time(0)] == [{}] * 6
    assert log.read({}, 1, {}) == []
    create_topic(servers, live.topics[0], 1)
    assert KafkaLog(live).missing == []


def test_a_pattern_that_no_topic_matches_is_waited_for(servers: str) -> None:
    pattern = f"none-{uuid.uuid4().hex}-.*"
    log = KafkaLog(source(servers, topic_pattern=pattern, missing_topic="wait"))
    assert (log.partitions, log.missing) == ([], [f"/{pattern}/"])
