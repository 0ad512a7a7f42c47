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
    counted = RecordsInFlight(context)
    assert counted.count() == 0
    counted.before_target()
    assert counted.count() == 7
    ends[TopicPartition("t", 1)] += 3
    ends[TopicPartition("t", 0)] += 1
    assert counted.count() == 11


def test_nothing_is_on_the_way_where_no_run_is_known_to_write(
    context: PipelineContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: object) -> bool:
        raise UnavailableError("The cluster does not answer.", "")

    monkeypatch.setattr(records_in_flight, "is_live", unknown)
    assert records_in_flight.records_in_flight(context) is None
    monkeypatch.setattr(records_in_flight, "is_live", lambda _: False)
    assert records_in_flight.records_in_flight(context) is None
    assert records_in_flight.records_in_flight(None) is None
