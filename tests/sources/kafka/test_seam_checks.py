"""A seam filter that would take every row of the topic for delivered is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sources.common.positions import PartitionStart, StartPosition
from sources.common.topic_log import LogRecord
from sources.config.source.kafka_source import KafkaSource
from sources.errors import SeamError
from sources.kafka.seam_checks import SeamOf, check_event_time_filter
from tests.minimal import minimal_model
from tests.sources.kafka.model_log import ModelLog
from tests.sources.kafka.test_start_offsets import T0, T1, history, ms

HOUR = 3600.0
READ = {"id": "bigint", "at": "timestamp"}


def check(ends_at: float, times: list[float], *, start: int = 0, **declared: Any) -> None:
    """History ends at a second after noon; so are the event times of the topic's records.

    The clock that gives records their timestamps is years ahead: it is the broker's.
    """
    source = KafkaSource.model_validate({"type": "kafka", "name": "live", "topic": "t", **declared})
    pipeline = minimal_model(
        {"type": "files", "name": "history", "path": "*", "format": "parquet"},
        source.model_dump(exclude_unset=True),
        allowed_lateness="2 h",
    )
    values = [
        json.dumps({"id": 1, "at": f"2024-01-01T{12 + int(second / HOUR):02}:00:00Z"}).encode()
        for second in times
    ]
    records = [LogRecord(T0, at, ms(10**8), value) for at, value in enumerate(values)]
    part = PartitionStart(start=start, log_start=0, log_end=len(times), reason="")
    position = StartPosition(source="live", evidence="timestamp", time_ms=0, partitions={T0: part})
    seam = SeamOf([history(ends_at)], position, {T0: len(times)})
    check_event_time_filter(source, READ, pipeline, ModelLog({T0: records}), seam)


def test_an_end_long_after_all_event_times_of_the_topic_is_refused() -> None:
    with pytest.raises(SeamError) as caught:
        check(10 * HOUR, [0, HOUR, 3 * HOUR])
    assert caught.value.message == (
        "The seam filter would probably remove every row of topic t: no `key` is declared, so rows "
        "at or before the end of history, 2024-01-01T22:00:00Z, count as delivered, and the newest "
        "event time among the topic's last records is 2024-01-01T15:00:00Z."
    )
    assert caught.value.fields["field"] == "event_time.not_after"
    assert "`not_after`" in caught.value.hint
    assert "`key`" in caught.value.hint


@pytest.mark.parametrize("ends_at", [0, 3 * HOUR, 5 * HOUR])
def test_an_end_within_the_lateness_is_fine(ends_at: float) -> None:
    check(ends_at, [0, HOUR, 3 * HOUR])


def test_the_newest_event_time_need_not_be_that_of_the_last_record() -> None:
    check(5 * HOUR, [3 * HOUR, HOUR, 0])


def test_nothing_is_removed_of_an_empty_seam_or_topic() -> None:
    check(10 * HOUR, [0, HOUR], start=2)
    check(10 * HOUR, [])


def test_of_several_sources_before_it_the_one_that_ends_last_is_named() -> None:
    source = KafkaSource.model_validate({"type": "kafka", "name": "live", "topic": "t"})
    files = {"type": "files", "name": "history", "path": "*", "format": "parquet"}
    declared = minimal_model(files, source.model_dump(exclude_unset=True))
    record = LogRecord(T0, 0, ms(0), b'{"id": 1, "at": "2024-01-01T12:00:00Z"}')
    part = PartitionStart(start=0, log_start=0, log_end=1, reason="")
    position = StartPosition(source="live", evidence="timestamp", time_ms=0, partitions={T0: part})
    wrong = history(10 * HOUR).model_copy(update={"source": "wrong"})
    log = ModelLog({T0: [record]})
    seam = SeamOf([wrong, history(0)], position, {T0: 1})
    with pytest.raises(SeamError, match="A single row of source `wrong`"):
        check_event_time_filter(source, READ, declared, log, seam)
    # Without anything before the topic nothing is filtered; partitions that are gone say nothing.
    check_event_time_filter(source, READ, declared, log, SeamOf([], position, {T0: 1}))
    gone = SeamOf([wrong], position, {T0: 1, T1: 7})
    with pytest.raises(
        SeamError, match="newest event time among the topic's last records is 2024-01-01T12:00"
    ):
        check_event_time_filter(source, READ, declared, log, gone)


def test_a_filter_that_removes_every_row_can_be_accepted() -> None:
    check(10 * HOUR, [0, HOUR], on_gap="accept")
