"""The network fails between a driver, the supervision and the broker: told by name, then exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.process import HOST, free_ports
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, start_live, wrong
from tests.e2e.supervision.faults import Look, late, look, seconds_until_well, watch
from tests.services.network import Network

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
THEIRS = b"client-of-the-case"
"""What driver and supervision call themselves; the test itself reaches the broker."""
COMMAND = "python -m pytest tests/e2e/supervision/test_network.py"


class Fault(NamedTuple):
    """A fault of the network, for so long.

    Attributes:
        name: What it is called.
        begin: Lets it begin.
        seconds: How long it lasts.
        is_named: Whether the verdict has to name the broker meanwhile.
    """

    name: str
    begin: Callable[[Network], None]
    seconds: float = 45.0
    is_named: bool = True


FAULTS = [
    Fault("connections are reset", Network.cut),
    Fault("nothing arrives", Network.silence),
    Fault("no answer arrives", lambda network: network.silence("to client")),
    Fault("no request arrives", lambda network: network.silence("to server")),
    Fault("one second late", lambda network: network.slow_down(delay_s=1), 20, is_named=False),
    Fault(
        "10 kB a second", lambda network: network.slow_down(bytes_per_s=10_000), 20, is_named=False
    ),
]


@pytest.fixture
def network() -> Iterator[Network]:
    """The way to a broker."""
    (port,) = free_ports(1)
    with Network(port, THEIRS) as made:
        # Where clients are sent once they have found the broker.
        config = {"advertised.listeners": f"PLAINTEXT://{HOST}:{made.port}"}
        with LocalBroker(config=config, port=port):
            yield made


@pytest.mark.timeout(1500)
def test_a_live_run_whose_broker_is_out_of_reach_says_so_and_ends_exact(
    tmp_path: Path, network: Network
) -> None:
    case = Case(tmp_path, f"{HOST}:{network.port}")
    case.write_history()
    case.produce(range(500, 1000))

    def edit(document: dict[str, Any]) -> None:
        topic = document["sources"][1]
        topic["properties"] = {"both": {"client.id": THEIRS.decode()}}
        document["supervision"] = {"restarts": {"backoff": "0 s"}}

    loaded = case.pipeline(edit)
    told: list[dict[str, Any]] = []

    def seen() -> Look:
        return look(loaded)

    def is_named(reason: str) -> bool:
        return f"The Kafka broker {case.servers} can't be reached" in reason

    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        for number, fault in enumerate(FAULTS):
            fault.begin(network)
            first = 1000 + 100 * number
            case.produce(range(first, first + 100))
            found = watch(seen, is_named, fault.seconds, is_named=fault.is_named)
            network.heal()
            told.append({"fault": fault.name, **found})
            told[-1]["caught up after, s"] = seconds_until_well(seen)
        record("network-broker", {"faults": told}, COMMAND)
    finally:
        network.heal()
        stopping.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000 + 100 * len(FAULTS), {})
    assert list(late(told)) == []
