"""The network fails between a driver, the supervision and the broker: told by name, then exact."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.record import record
from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import LocalBroker
from hybrid_extensions.servers.process import HOST, free_ports
from orchestration import operations
from orchestration.catch_up import wait_until_caught_up
from orchestration.supervision.supervisor import Tick, tick
from sources.config.loader import LoadedPipeline
from sources.planning.context import PipelineContext
from tests.e2e.case import Case, start_live, wrong
from tests.services.network import Network
from tests.services.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.crash]
THEIRS = b"client-of-the-case"
"""What driver and supervision call themselves; the test itself reaches the broker."""
COMMAND = "python -m pytest tests/e2e/supervision/test_network.py"
TOLD_S = 60.0
"""What fails is named within this time."""


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
    try:
        start_live(loaded)
        wait_until_caught_up(PipelineContext.require(loaded))
        for number, fault in enumerate(FAULTS):
            fault.begin(network)
            first = 1000 + 100 * number
            case.produce(range(first, first + 100))
            told.append({"fault": fault.name, **watch(loaded, fault, case.servers)})
            network.heal()
            begun = time.monotonic()
            wait_for(lambda: health_of(loaded) == ("healthy", 0), "a run that has caught up", 200)
            told[-1]["caught up after, s"] = round(time.monotonic() - begun, 1)
        record("network-broker", {"faults": told}, COMMAND)
    finally:
        network.heal()
        operations.stop(loaded)
    report = audit(loaded)
    assert (report.expected, wrong(report)) == (1000 + 100 * len(FAULTS), {})
    late = [each for each in told if (each["named after, s"] or 0) > TOLD_S]
    assert late == []


def watch(loaded: LoadedPipeline, fault: Fault, servers: str) -> dict[str, Any]:
    """Look while a fault lasts; at least until it is named, if it has to be."""
    begun, named_s, reason = time.monotonic(), None, ""
    healths: list[str] = []
    while (past := time.monotonic() - begun) < fault.seconds or (fault.is_named and not named_s):
        assert past < 3 * TOLD_S, f"{fault.name} is not named: {healths}, {reason}"
        found = look(loaded)
        if not healths or found.verdict.health != healths[-1]:
            healths.append(found.verdict.health)
        reason = found.verdict.reason
        if named_s is None and f"The Kafka broker {servers} can't be reached" in reason:
            named_s = round(time.monotonic() - begun, 1)
        time.sleep(0.5)
    return {"health": healths, "named after, s": named_s, "reason": reason}


def look(loaded: LoadedPipeline) -> Tick:
    found = tick(loaded)
    assert found is not None
    return found


def health_of(loaded: LoadedPipeline) -> tuple[str, float | None]:
    found = look(loaded)
    return found.verdict.health, found.verdict.numbers.get("lag")
