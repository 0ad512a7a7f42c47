"""What a topic holds that is not committed, also while a run has not said anything yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration import backlog
from orchestration.backlog import backlog_of
from sources.common.positions import Offsets, TopicPartition
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.orchestration.supervision.live_case import LiveCase

TOPIC = {
    "type": "kafka",
    "name": "inbox",
    "topic": "events.v1",
    "bootstrap_servers": "localhost:1",
    "format": "json",
}
FIRST, SECOND = TopicPartition("events.v1", 0), TopicPartition("events.v1", 1)


class Log:
    """A topic of two partitions with 1,000 records each."""

    def __init__(self, *_: object) -> None:
        pass

    def log_start(self) -> Offsets:
        return {FIRST: 0, SECOND: 0}

    def log_end(self) -> Offsets:
        return {FIRST: 1000, SECOND: 1000}


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveCase:
    monkeypatch.setattr(backlog, "KafkaLog", Log)
    return LiveCase(tmp_path, inbox=TOPIC)


def starting(case: LiveCase) -> Heartbeat:
    """A run that has been launched again and has not read anything yet."""
    case.launch("b", state="starting", offsets=None)
    beat = read_heartbeat(case.generation, "inbox")
    assert beat is not None
    return beat


def waiting(case: LiveCase) -> int | None:
    return backlog_of(PipelineContext(case.loaded, case.generation)).reported(starting(case))


def test_before_the_first_commit_all_records_wait(case: LiveCase) -> None:
    assert waiting(case) == 2000


def test_a_run_that_comes_up_again_has_what_those_before_it_have_committed(case: LiveCase) -> None:
    checkpoint = case.generation.checkpoint.root
    for name, text in {
        "offsets/0": 'v1\n{}\n-\n{"events.v1":{"0":1000,"1":990}}',
        "commits/0": "v1\n{}",
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    assert waiting(case) == 10
