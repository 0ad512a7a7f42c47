"""A driver that makes no progress says whether the broker answers on its machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorReport, SeamError
from sources.kafka.client.kafka_log import KafkaLog
from spark_jobs.inside.driver.reports import broker_look
from spark_jobs.inside.driver.reports.broker_look import BrokerLook
from tests.services.network import Network
from tests.services.processes import wait_for

pytestmark = pytest.mark.kafka
STILL_S = 11.0


@pytest.fixture
def network(servers: str) -> Iterator[Network]:
    with Network(int(servers.rpartition(":")[2])) as made:
        yield made


@pytest.fixture
def look(network: Network, monkeypatch: pytest.MonkeyPatch) -> BrokerLook:
    monkeypatch.setattr(broker_look, "_EVERY_S", 0.0)
    topic = KafkaSource(
        type="kafka",
        name="live",
        topic="orders",
        bootstrap_servers=f"127.0.0.1:{network.port}",
    )
    return BrokerLook(lambda: KafkaLog(topic, 3.0).log_end())


def told(look: BrokerLook, still_s: float = STILL_S) -> list[ErrorReport | None]:
    """What it says at each look until something is known."""
    found = [look.look(still_s)]
    wait_for(lambda: look.look(still_s) is not None, "an answer", 30)
    return [*found, look.look(still_s)]


@pytest.mark.parametrize("fault", ["cut", "silence"])
def test_a_broker_that_does_not_answer_is_told_until_it_does_or_the_query_goes_on(
    look: BrokerLook, network: Network, fault: str
) -> None:
    getattr(network, fault)()
    first, last = told(look)
    assert first is None, "nobody waits for the answer"
    assert last is not None
    assert last.kind == "unavailable"
    assert f"The Kafka broker 127.0.0.1:{network.port} can't be reached: " in last.message
    assert look.look(9.0) is None
    told(look)
    network.heal()
    # The topic does not exist, which is an answer.
    wait_for(lambda: (said := look.look(STILL_S)) is not None and said.kind == "input", "it", 30)


def asked(monkeypatch: pytest.MonkeyPatch, error: SeamError) -> BrokerLook:
    """A look at topics that are other ones by now, while the query makes progress."""
    monkeypatch.setattr(broker_look, "_SELDOM_S", 0.0)
    done = threading.Event()

    def ask() -> None:
        done.set()
        raise error

    look = BrokerLook(ask)
    assert look.look(0.0) is None
    assert done.wait(10)
    time.sleep(0.1)
    return look


def test_a_topic_that_is_another_one_ends_a_query_that_makes_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = asked(monkeypatch, SeamError("It is another one.", "", topic="t", value="c/other"))
    with pytest.raises(SeamError, match="It is another one"):
        look.look(0.0)


def test_a_topic_that_is_gone_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    look = asked(monkeypatch, SeamError("It is gone.", "", topic="t", value=""))
    assert look.look(0.0) is None
