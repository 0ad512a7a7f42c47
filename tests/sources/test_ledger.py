"""The ledger of a hand-over, from a model of the topic's log."""

from __future__ import annotations

from sources.common.positions import PartitionStart, StartPosition
from sources.config.source.kafka_source import KafkaSource
from sources.kafka.start.offset_gaps import gap
from sources.ledger import make_ledger
from tests.minimal import minimal_model
from tests.sources.kafka.model_log import ModelLog
from tests.sources.kafka.test_start_offsets import T0, T1


def test_an_entry_names_all_gaps_of_its_partition() -> None:
    start = StartPosition(
        source="live",
        evidence="offsets",
        time_ms=None,
        partitions={
            at: PartitionStart(start=9, log_start=9, log_end=9, reason="") for at in (T0, T1)
        },
        gaps=[gap(T0, "offset 3 is missing"), gap(T0, "the log starts at offset 9")],
    )
    files = {"type": "files", "name": "history", "path": "*", "format": "parquet"}
    source = minimal_model(files, {"type": "kafka", "name": "live", "topic": "t"}).sources[-1]
    assert isinstance(source, KafkaSource)
    ledger = make_ledger(start, [], "none", {}, ModelLog({T0: [], T1: []}), source)
    named = [entry.gap for entry in ledger.entries]
    assert named == ["offset 3 is missing; also, the log starts at offset 9", None]
