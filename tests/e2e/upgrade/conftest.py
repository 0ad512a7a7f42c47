"""The brokers of kept states, and the state that a test is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hybrid_extensions.servers.broker import LocalBroker
from tests.e2e.upgrade.resumed import Resumed, resumed
from tests.kept_states.archives import BROKER, Kept, unpack


@pytest.fixture(scope="package")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Starts the broker of a version with the topics that it left; returns its address."""
    running: dict[str, LocalBroker] = {}

    def start(version: str) -> str:
        if version not in running:
            folder = tmp_path_factory.mktemp("broker")
            unpack(Kept(version, BROKER), folder / "data")
            running[version] = LocalBroker(folder)
            running[version].start()
        return running[version].bootstrap_servers

    yield start
    for broker in running.values():
        broker.stop()


@pytest.fixture
def state(
    kept: Kept, brokers: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resumed]:
    """The state that a test is about."""
    with resumed(kept, brokers, monkeypatch) as found:
        yield found
