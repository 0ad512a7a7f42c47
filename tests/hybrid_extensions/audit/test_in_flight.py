"""Records that are on the way while an audit reads: those are no rows that the target lacks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hybrid_extensions.audit import records_in_flight
from hybrid_extensions.audit.records_in_flight import RecordsInFlight
from sources.common.positions import Offsets, TopicPartition
from sources.errors import UnavailableError
from sources.planning.context import PipelineContext
from spark_jobs.checkpoint import offset_log
from tests.hybrid_extensions.audit.audit_case import Case

LIVE = {"type": "kafka", "name": "live", "topic": "t", "bootstrap_servers": "b:9092"}
HISTORY = {"type": "files", "name": "history", "path": "history/*", "format": "parquet"}


@pytest.fixture
def context(tmp_path: Path) -> PipelineContext:
    loaded = Case(tmp_path).loaded(sources=[HISTORY, LIVE])
    generation = loaded.open_generation(create=True)
    assert generation is not None
    return PipelineContext(loaded, generation)


def test_counted_are_what_was_not_read_yet_and_what_arrived_meanwhile(
    context: PipelineContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 50}

    class Log:
        def __init__(self, source: object) -> None:
            assert source is context.pipeline.sources[-1]

        def high_watermark(self) -> Offsets:
            return ends

    monkeypatch.setattr(records_in_flight, "KafkaLog", Log)
    backlog = SimpleNamespace(waiting=lambda _: 7)
    monkeypatch.setattr(records_in_flight, "backlog_of", lambda *_, **__: backlog)
    counted = RecordsInFlight(context, is_live=True)
    assert counted.count() == 0
    counted.before_target()
    assert counted.count() == 7
    ends[TopicPartition("t", 1)] += 3
    ends[TopicPartition("t", 0)] += 1
    assert counted.count() == 11


class Nothing:
    """The log of a topic without records."""

    def __init__(self, _: object) -> None:
        pass

    def high_watermark(self) -> Offsets:
        return {}


@pytest.mark.parametrize("is_known", [True, False])
def test_what_a_topic_has_while_its_run_is_paused_is_not_read_yet(
    context: PipelineContext, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    def live(_: object) -> bool:
        if not is_known:
            raise UnavailableError("The cluster does not answer.", "")
        return False

    monkeypatch.setattr(records_in_flight, "is_live", live)
    monkeypatch.setattr(records_in_flight, "KafkaLog", Nothing)
    assert records_in_flight.records_in_flight(context) is None, "none has begun"
    begun = {"t": {"0": 5}}
    monkeypatch.setattr(offset_log, "committed_offset", lambda _, place: place == 1 and begun)
    counted = records_in_flight.records_in_flight(context)
    assert counted is not None
    assert not counted.is_live


def test_what_a_topic_lacks_that_has_an_end_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_in_flight, "is_live", lambda _: False)
    monkeypatch.setattr(offset_log, "committed_offset", lambda *_: {"reservoirVersion": 1})
    loaded = Case(tmp_path).loaded(sources=[HISTORY, {**LIVE, "until": "latest"}])
    generation = loaded.open_generation(create=True)
    assert generation is not None
    context = PipelineContext(loaded, generation)
    assert records_in_flight.records_in_flight(context) is None
    assert records_in_flight.records_in_flight(None) is None
