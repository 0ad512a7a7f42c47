"""A driver that makes no progress says whether the broker answers on its machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sources.config.source.kafka_source import KafkaSource
from sources.errors import ErrorReport
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
    return BrokerLook(
        KafkaSource(
            type="kafka",
            name="live",
            topic="orders",
            bootstrap_servers=f"127.0.0.1:{network.port}",
        )
    )


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
