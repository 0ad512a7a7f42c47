"""Further settings of the Kafka clients: who gets them, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sources.config.source.kafka_source import KafkaSource
from sources.errors import InputError
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.readers.topics.kafka_stream import client_options

PROPERTIES = {
    "both": {"client.id": "backfill", "reconnect.backoff.ms": 250},
    "librdkafka": {"socket.keepalive.enable": True},
    "java": {"receive.buffer.bytes": 1048576},
}


def source(properties: dict[str, Any]) -> KafkaSource:
    declared = {"type": "kafka", "name": "live", "topic": "t", "bootstrap_servers": "127.0.0.1:1"}
    return KafkaSource.model_validate({**declared, "format": "json", "properties": properties})


def test_each_client_gets_its_own_and_the_common_ones() -> None:
    declared = source(PROPERTIES)
    told = consumer_settings(declared)
    named = ("client.id", "reconnect.backoff.ms", "socket.keepalive.enable")
    assert [told[name] for name in named] == ["backfill", "250", "true"]
    assert "receive.buffer.bytes" not in told
    options = client_options(declared)
    named = ("kafka.client.id", "kafka.reconnect.backoff.ms", "kafka.receive.buffer.bytes")
    assert [options[name] for name in named] == ["backfill", "250", "1048576"]
    assert "kafka.socket.keepalive.enable" not in options


def test_a_name_that_librdkafka_does_not_know_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError) as caught:
        KafkaLog(source({"both": {"receive.buffer.bytes": 1}}))
    assert 'No such configuration property: "receive.buffer.bytes"' in caught.value.message
    assert "`properties.java`" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.truststore.password",
    ],
)
def test_what_carries_a_secret_is_refused_by_name(name: str) -> None:
    for part in PROPERTIES:
        with pytest.raises(ValidationError) as caught:
            source({part: {name: "hunter2"}})
        assert f"`properties` has `{name}`, which carries a secret" in str(caught.value)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bootstrap.servers", "write `bootstrap_servers` of the source instead"),
        ("fetch.max.wait.ms", "write `fetch_max_wait` of the source instead"),
        ("security.protocol", "write `security` of the source instead"),
        ("group.id", "the project sets it"),
    ],
)
def test_what_a_field_declares_is_refused_with_the_field(name: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        source({"both": {name: "x"}})
    assert told in str(caught.value)
