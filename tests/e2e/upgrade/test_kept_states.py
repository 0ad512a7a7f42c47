"""States that earlier versions left are resumed by this one, and every table ends exact.

A failure means that whoever upgrades loses a pipeline: docs/versions.md says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hybrid_extensions.audit.run import audit
from hybrid_extensions.servers.broker import LocalBroker
from orchestration import operations
from orchestration.catch_up import wait_until_caught_up
from orchestration.generations import promotion
from orchestration.supervision import controls
from orchestration.supervision.status import status
from sources.common.positions import now_ms
from sources.config.loader import load_pipeline
from sources.errors import StateError
from sources.hand_over import hand_over
from sources.planning.context import PipelineContext
from sources.serving import read_serving
from spark_jobs.checkpoint.offset_log import last_committed, last_planned
from spark_jobs.launch.launch_record import Launch, log_name, write_launch
from spark_jobs.run_state.heartbeat import read_heartbeat
from tests.e2e.case import live_of
from tests.e2e.in_session import run_history, run_live
from tests.kept_states.archives import BROKER, FILE, SERVERS, Kept, kept_states, unpack, unpacked
from tests.kept_states.expected import differences
from tests.kept_states.pipelines import produce_changes, produce_events, topic_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka]

NEW = range(400, 440)


@pytest.fixture(scope="module")
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
            operations.stop(self.loaded)

    def launch_here(self) -> None:
        """Record a launch of the live run, which then runs in this process."""
        generation, source = self.context.generation, live_of(self.loaded).name
        launch = Launch(
            launch_id="test", source=source, log=log_name(source), group=None, at_ms=now_ms()
        )
        write_launch(generation, launch)

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
    servers = brokers(kept.version)
    monkeypatch.setenv(SERVERS, servers)
    with unpacked(kept) as folder:
        yield Resumed(kept, folder, servers)


@pytest.fixture
def state(
    kept: Kept, brokers: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resumed]:
    """The state that a test is about."""
    with resumed(kept, brokers, monkeypatch) as found:
        yield found


@of("live")
def test_a_live_run_whose_machine_is_gone_is_down_and_reads_on(state: Resumed) -> None:
    found = status(state.loaded)
    assert (found.refused, found.live.health if found.live else None) == (None, "dead")
    state.by_a_driver(lambda: operations.resume(state.context, live_of(state.loaded)))
    state.require_exact()


@of("paused")
def test_a_paused_run_is_paused_until_it_is_resumed(state: Resumed) -> None:
    found = status(state.loaded)
    assert found.live is not None
    assert (found.live.health, found.live.numbers["lag"]) == ("paused", 18)
    state.by_a_driver(lambda: controls.resume(state.loaded))
    state.require_exact()


@of("mid_history")
def test_history_goes_on_with_the_micro_batch_that_was_killed(
    state: Resumed, spark: SparkSession
) -> None:
    checkpoint = state.context.generation.checkpoint
    assert (last_committed(checkpoint), last_planned(checkpoint)) == (1, 2)
    state.launch_here()
    run_history(spark, state.loaded)
    hand_over(state.context, live_of(state.loaded))
    produce_events(state.servers, state.name, NEW)
    run_live(spark, state.loaded)
    state.require_exact()


@of("half_promoted")
def test_a_promotion_that_was_killed_is_refused_by_what_finishes_it_and_is_finished(
    state: Resumed,
) -> None:
    with pytest.raises(StateError, match="g2 of `half_promoted` is replacing g1") as refused:
        controls.resume(state.loaded)
    assert "`hybrid generation finish P`" in str(refused.value)
    state.by_a_driver(lambda: promotion.finish(state.loaded))
    state.require_exact()
    assert read_serving(state.loaded).generation == "g2"


@of("windows")
def test_windows_that_history_opened_count_the_records_after_it(
    state: Resumed, spark: SparkSession
) -> None:
    generation = state.context.generation
    beat = read_heartbeat(generation, "live")
    assert beat is not None
    assert beat.filtering
    assert last_committed(generation.checkpoint) != last_planned(generation.checkpoint)
    produce_events(state.servers, state.name, NEW)
    state.launch_here()
    run_live(spark, state.loaded)
    state.require_exact()


@of("captured")
def test_changes_of_a_captured_table_are_merged_in_the_order_of_the_database(
    state: Resumed, spark: SparkSession
) -> None:
    # Keys that were deleted before, by a change from before that and by one from after it.
    changes = [(3, 48, "too late"), (25, 60, "again"), (5, 61, "new"), (6, 62, None), (40, 63, "x")]
    produce_changes(state.servers, state.name, changes)
    state.launch_here()
    run_live(spark, state.loaded)
    state.require_exact()
