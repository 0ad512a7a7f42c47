"""What is probably in both is far less than all that Kafka holds from the start on."""

from __future__ import annotations

import pytest

from sources.common.positions import (
    EndPosition,
    Evidence,
    PartitionStart,
    StartPosition,
    TopicPartition,
)
from sources.common.topic_log import LogRecord
from sources.kafka.start.overlap import likely_overlap
from tests.sources.kafka.model_log import ModelLog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def log(**seconds: list[int]) -> ModelLog:
    """A log with one record for each second that is named, by partition."""
    return ModelLog(
        {
            at: [
                LogRecord(at, offset, second * 1000, b"{}")
                for offset, second in enumerate(seconds[name])
            ]
            for at, name in ((T0, "t0"), (T1, "t1"))
        }
    )


def history(end_s: int) -> EndPosition:
    return EndPosition(
        source="history",
        event_time_ms=end_s * 1000,
        complete_through_ms=0,
        event_times="exact",
        splits=1,
        rows=None,
    )


def start(*offsets: int, evidence: Evidence = "timestamp") -> StartPosition:
    partitions = {
        at: PartitionStart(start=offset, log_start=0, log_end=9, reason="")
        for at, offset in zip((T0, T1), offsets, strict=True)
    }
    time_ms = 1 if evidence == "timestamp" else None
    return StartPosition(source="live", evidence=evidence, time_ms=time_ms, partitions=partitions)


@pytest.mark.parametrize(
    ("end_s", "expected"),
    [(0, 0), (12, 2), (13, 3), (99, 7)],
    ids=["none", "before its last record", "with its last record", "all of them"],
)
def test_records_up_to_the_end_of_history_count(end_s: int, expected: int) -> None:
    appended = log(t0=[9, 11, 12, 13, 14, 15], t1=[8, 30, 31])
    seam_end = appended.high_watermark()
    assert likely_overlap(appended, history(end_s), start(1, 1), seam_end) == expected


def test_what_was_appended_after_history_was_listed_does_not_count() -> None:
    appended = log(t0=[9, 11, 12, 13], t1=[8])
    assert likely_overlap(appended, history(99), start(1, 1), {T0: 2, T1: 1}) == 1


def test_offsets_tell_nothing_by_time() -> None:
    appended = log(t0=[9], t1=[8])
    assert likely_overlap(appended, history(99), start(0, 0, evidence="offsets"), {T0: 1}) is None
