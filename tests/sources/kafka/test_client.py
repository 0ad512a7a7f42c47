"""Look-ups on a broker that is not there: the error names it, the reason and the way out."""

from __future__ import annotations

import socket
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hybrid_extensions.servers.broker import create_topic
from sources.config.source.kafka_source import KafkaSource
from sources.errors import UnavailableError
from sources.kafka.client.kafka_log import KafkaLog
from tests.sources.kafka.waits import noted_waits


def source(servers: str, topic: str = "orders") -> KafkaSource:
    return KafkaSource(type="kafka", name="live", topic=topic, bootstrap_servers=servers)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds the client waits for each answer at most."""
    return noted_waits(monkeypatch)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_broker_that_is_down_is_named_with_the_reason_and_the_way_out() -> None:
    servers = f"127.0.0.1:{unused_port()}"
    with pytest.raises(UnavailableError) as caught:
        KafkaLog(source(servers), timeout_s=1)
    assert caught.value.message == (
        f"The Kafka broker {servers} can't be reached: Connection refused."
    )
    # Shown of a live run, too, which goes on by itself once the broker answers.
    assert caught.value.hint == (
        "Start the broker, make it reachable from this machine, or correct `bootstrap_servers` of "
        "source `live`."
    )
    assert caught.value.fields == {"source": "live", "server": servers}


def test_a_broker_that_is_down_is_asked_a_few_times_within_about_the_timeout(
    waits: list[float],
) -> None:
    with pytest.raises(UnavailableError):
        KafkaLog(source(f"127.0.0.1:{unused_port()}"), timeout_s=1)
    assert len(waits) == 3
    assert sum(waits) == pytest.approx(1, rel=0.2)


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(UnavailableError, match=r"Failed to resolve 'nowhere\.invalid:9092'"):
        KafkaLog(source("nowhere.invalid:9092"), timeout_s=1)


@pytest.mark.kafka
@pytest.mark.parametrize("refusals", [2, 1000])
@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param(KafkaError.NOT_LEADER_FOR_PARTITION, "Not leader for partition", id="another"),
        pytest.param(KafkaError._NOENT, "No leaders found", id="none"),
    ],
)
def test_a_partition_that_gets_another_leader_is_waited_for(
    servers: str, monkeypatch: pytest.MonkeyPatch, refusals: int, code: int, told: str
) -> None:
    topic = f"elections-{refusals}-{abs(code)}"
    create_topic(servers, topic, 2)
    left = [refusals]
    asked = AdminClient.list_offsets

    def refuse(*arguments: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise KafkaException(KafkaError(code, told))
        return asked(*arguments, **options)

    monkeypatch.setattr(AdminClient, "list_offsets", refuse)
    log = KafkaLog(source(servers, topic), timeout_s=2)
    if refusals == 2:
        assert set(log.log_end().values()) == {0}
        return
    with pytest.raises(UnavailableError, match=told):
        log.log_end()


@pytest.mark.kafka
@pytest.mark.parametrize("missing", [2, 1000])
def test_a_bound_that_is_no_offset_is_asked_for_again_and_never_taken_for_one(
    servers: str, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    topic = f"no-bounds-{missing}"
    create_topic(servers, topic, 2)
    left = [missing]
    asked = AdminClient.list_offsets

    def without_offsets(*arguments: Any, **options: Any) -> Any:
        answers = asked(*arguments, **options)
        if not left[0]:
            return answers
        left[0] -= 1
        nothing: Future[Any] = Future()
        nothing.set_result(SimpleNamespace(offset=-1001))
        return {**answers, next(iter(answers)): nothing}

    monkeypatch.setattr(AdminClient, "list_offsets", without_offsets)
    log = KafkaLog(source(servers, topic), timeout_s=2)
    if missing == 2:
        assert set(log.log_start().values()) == {0}
        return
    with pytest.raises(
        UnavailableError,
        match=f"answers -1001 instead of an offset of topic `{topic}`, partition 0",
    ):
        log.log_end()
