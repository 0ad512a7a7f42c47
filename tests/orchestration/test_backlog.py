"""What a topic holds that is not committed, also while a run has not said anything yet."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from hybrid_extensions.servers.broker import create_topic
from orchestration import backlog, catch_up
from orchestration.backlog import FILES_OR_SPLITS, RECORDS, backlog_of
from orchestration.catch_up import UpToNow, wait_until_caught_up
from orchestration.supervision.source_status import source_status
from sources.common.positions import Offsets, TopicPartition
from sources.errors import RunError
from sources.planning.context import PipelineContext
from spark_jobs.run_state.heartbeat import Heartbeat, read_heartbeat
from tests.orchestration.supervision.live_case import LiveCase
from tests.services.processes import wait_for

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

    missing: Sequence[str] = ()

    def __init__(self, *_: object) -> None:
        pass

    def log_start(self) -> Offsets:
        return {FIRST: 0, SECOND: 0}

    def log_end(self) -> Offsets:
        return {FIRST: 1000, SECOND: 1000}

    def high_watermark(self) -> Offsets:
        return self.log_end()


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
    return backlog_of(PipelineContext(case.loaded, case.generation)).reported(
        starting(case), is_ended=False
    )


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


def test_a_topic_that_did_not_exist_at_one_look_is_counted_once_it_does(
    case: LiveCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Empty(Log):
        missing = ("events.v1",)

        def log_start(self) -> Offsets:
            return {}

        log_end = log_start

    monkeypatch.setattr(backlog, "KafkaLog", Empty)
    counter, beat = backlog_of(PipelineContext(case.loaded, case.generation)), starting(case)
    assert (counter.reported(beat, is_ended=False), [*counter.missing()]) == (0, ["events.v1"])
    monkeypatch.setattr(backlog, "KafkaLog", Log)
    assert (counter.reported(beat, is_ended=False), [*counter.missing()]) == (2000, [])


@pytest.mark.kafka
class TestATransactionThatIsOpen:
    """A hundred committed records behind the first record of another producer's transaction."""

    @pytest.fixture
    def live(self, tmp_path: Path, servers: str) -> Iterator[LiveCase]:
        topic = f"events-{uuid.uuid4().hex[:8]}"
        create_topic(servers, topic, 1, {"retention.ms": "-1"})
        settings = {"bootstrap.servers": servers}
        self.open = Producer({**settings, "transactional.id": uuid.uuid4().hex})
        self.open.init_transactions()
        self.open.begin_transaction()
        self.open.produce(topic, b"{}")
        self.open.flush()
        others = Producer(settings)
        for _ in range(100):
            others.produce(topic, b"{}")
        others.flush()
        source = {**TOPIC, "topic": topic, "bootstrap_servers": servers}
        case = LiveCase(tmp_path, inbox=source)
        # What can be read was.
        case.launch("a", offsets={topic: {"0": 0}})
        yield case
        # Its threads would look for a broker that has ended.
        del self.open

    def test_nothing_else_waits_but_it_is_told_what_it_keeps_back(self, live: LiveCase) -> None:
        context = PipelineContext(live.loaded, live.generation)
        beat = read_heartbeat(live.generation, "inbox")
        counter = backlog_of(context)
        assert (counter.waiting(beat), counter.held()) == (0, 101)
        # A drain waits for it.
        assert backlog_of(context, as_of_now=True).waiting(beat) == 101
        found = source_status(live.loaded, live.generation, "inbox")
        assert found.lag == 0
        assert found.note is not None
        assert found.note.startswith("101 offsets of its topics can't be read yet")
        self.open.commit_transaction()
        wait_for(lambda: backlog_of(context).held() == 0, "the commit", 30)
        assert backlog_of(context).waiting(beat) == 102
        assert source_status(live.loaded, live.generation, "inbox").note is None

    def test_the_wait_says_so_and_ends_if_it_stays_open(
        self, live: LiveCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[tuple[int, str]] = []
        monkeypatch.setattr(catch_up, "OPEN_S", 0.0)
        context = PipelineContext(live.loaded, live.generation)
        with (
            live.alive(),
            pytest.raises(RunError, match=r"is still behind its input .* 101 offsets") as told,
        ):
            wait_until_caught_up(context, lambda count, unit: said.append((count, unit)))
        assert said[0] == (101, "records behind an open transaction")
        assert "kafka-transactions.sh" in told.value.hint
        self.open.abort_transaction()


def test_what_a_drain_waits_for_is_one_record_or_several(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_else = SimpleNamespace(text="")
    monkeypatch.setattr(catch_up, "capture_wait", lambda _context: nothing_else)
    said = []
    for unit in (RECORDS, FILES_OR_SPLITS):
        backlog = SimpleNamespace(unit=unit)
        monkeypatch.setattr(catch_up, "backlog_of", lambda _, as_of_now, it=backlog: it)
        until_now = UpToNow(cast("PipelineContext", None))
        said += [until_now.in_words(1), until_now.in_words(2_000)]
    assert said == [
        "1 record is left",
        "2,000 records are left",
        "1 file or split is left",
        "2,000 files or splits are left",
    ]


_BUSY: dict[str, Any] = {"watermark_ms": 5, "batch_id": 7, "idle": False}


@pytest.mark.parametrize(
    ("mode", "said", "looks"),
    [
        pytest.param("append", [_BUSY, _BUSY, {**_BUSY, "batch_id": 8}], 3, id="written by then"),
        pytest.param("append", [_BUSY, {**_BUSY, "idle": True}], 2, id="none has ended"),
        pytest.param("append", [{**_BUSY, "idle": True}], 1, id="written before"),
        pytest.param("append", [{**_BUSY, "watermark_ms": None}], 1, id="no watermark"),
        pytest.param("merge", [_BUSY], 1, id="merged as they grow"),
    ],
)
def test_windows_that_end_by_the_last_records_are_waited_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    said: list[dict[str, Any]],
    looks: int,
) -> None:
    live = LiveCase(tmp_path, sink_mode=mode)
    nothing = SimpleNamespace(unit=RECORDS, waiting=lambda _beat: 0, held=lambda: 0)
    monkeypatch.setattr(catch_up, "backlog_of", lambda _context: nothing)
    left = iter(said)
    live.launch("a", **next(left))
    seen: list[int] = []

    def look(waiting: int, _unit: str) -> None:
        # It has read the heartbeat; the next look reads the next one.
        seen.append(waiting)
        for following in left:
            live.launch("a", **following)
            break

    with live.alive():
        wait_until_caught_up(PipelineContext(live.loaded, live.generation), look)
    assert seen == [0] * looks
