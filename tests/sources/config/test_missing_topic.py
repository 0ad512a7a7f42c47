"""What is declared for a topic that does not exist yet, and what has no meaning with it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sources.config.source.kafka_options import CreateTopic
from sources.config.source.kafka_source import KafkaSource


def source(**declared: Any) -> KafkaSource:
    topic = {} if "topic_pattern" in declared else {"topic": "shop.public.orders"}
    return KafkaSource.model_validate({"type": "kafka", "name": "live", **topic, **declared})


def test_by_default_a_missing_topic_is_refused() -> None:
    assert source().missing_topic == "refuse"
    assert not source().waits_for_topic


def test_a_topic_to_create_has_what_is_declared_and_the_brokers_defaults() -> None:
    declared = {"partitions": 3, "settings": {"retention.ms": -1}}
    found = source(missing_topic={"create": declared}).missing_topic
    assert isinstance(found, CreateTopic)
    assert (found.create.partitions, found.create.replication_factor) == (3, None)
    assert found.create.settings == {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"missing_topic": "wait", "until": "latest"}, "can't be combined with `until`"),
        (
            {"missing_topic": "wait", "start": {"offsets": {0: 1}}},
            r"can't be combined with `start\.offsets`",
        ),
        (
            {"missing_topic": {"create": {}}, "topic_pattern": "shop.*"},
            "needs the names of the topics",
        ),
        ({"missing_topic": "create"}, "missing_topic"),
        ({"missing_topic": {"create": {"partitions": 0}}}, "greater than 0"),
    ],
)
def test_what_has_no_meaning_is_refused(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        source(**declared)
