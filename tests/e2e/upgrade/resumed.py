"""A kept state where it was made, which a test resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hybrid_extensions.audit.run import audit
from orchestration.catch_up import wait_until_caught_up
from orchestration.operations import stopping
from sources.common.times import now_ms
from sources.config.loader import load_pipeline
from sources.planning.context import PipelineContext
from spark_jobs.launch.launch_record import Launch, last_launch, log_name, record_launch
from tests.e2e.case import live_of
from tests.kept_states.archives import FILE, SERVERS, Kept, kept_states, unpacked
from tests.kept_states.expected import differences
from tests.kept_states.pipelines import produce_events, topic_of

NEW = range(400, 440)


def of(name: str) -> pytest.MarkDecorator:
    """The states of a name, one for each version."""
    found = [each for each in kept_states() if each.name == name]
    return pytest.mark.parametrize("kept", found, ids=lambda kept: kept.version)


class Resumed:
    """A state where it was made, with the broker that it names."""

    def __init__(self, kept: Kept, folder: Path, servers: str) -> None:
        self.name = kept.name
        self.folder = folder
        self.servers = servers
        self.loaded = load_pipeline(folder / FILE)

    @property
    def context(self) -> PipelineContext:
        """The pipeline and its state."""
        return PipelineContext.require(self.loaded)

    def by_a_driver(self, start: Callable[[], object]) -> None:
        """Let a driver read on, also what is produced while it runs; stop it."""
        try:
            start()
            produce_events(self.servers, self.name, NEW)
            wait_until_caught_up(self.context)
        finally:
            stopping.stop(self.loaded)

    def launch_here(self) -> None:
        """Record a launch of the live run, which then runs in this process."""
        generation, source = self.context.generation, live_of(self.loaded).name
        launch = Launch(
            launch_id="test", source=source, log=log_name(source), group=None, at_ms=now_ms()
        )
        record_launch(generation, last_launch(generation), launch)

    def require_exact(self) -> None:
        """By the audit, and by a computation that has nothing of the project."""
        report = audit(self.loaded)
        assert report.ok, report.to_dict()
        found = differences(self.name, self.folder, self.servers, topic_of(self.name))
        assert found == {"missing": [], "unexpected": []}


@contextmanager
def resumed(
    kept: Kept, brokers: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resumed]:
    """Unpack a state, with the broker of its version; removed at the end."""
    servers = brokers(kept.version)
    monkeypatch.setenv(SERVERS, servers)
    with unpacked(kept) as folder:
        yield Resumed(kept, folder, servers)
